"""The rows of "The problem it ends" about the way down: nothing lost, nothing twice."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from distributed import Client

from tests.requests.support import local, run, until

pytestmark = pytest.mark.integration

BEGUN: Counter[str] = Counter()
GO_ON = threading.Event()


def wait_for_it(number: str) -> str:
    """Run in a thread of this process until told to go on."""
    BEGUN[number] += 1
    GO_ON.wait(30)
    return number


def test_the_busy_worker_stays_and_its_task_runs_once() -> None:
    async def main() -> None:
        BEGUN.clear()
        GO_ON.clear()
        async with (
            local(n_workers=2) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            busy = list(cluster.scheduler.workers)[-1]
            future = client.submit(
                wait_for_it, "one", workers=[busy], allow_other_workers=True
            )
            await until(lambda: BEGUN["one"] == 1)
            await cluster.scale(1)
            await cluster.wait_for_workers()
            assert list(cluster.scheduler.workers) == [busy]
            GO_ON.set()
            assert await future == "one"
            assert BEGUN == {"one": 1}

    try:
        run(main())
    finally:
        GO_ON.set()


def test_tasks_of_workers_that_leave_run_once() -> None:
    async def main() -> None:
        BEGUN.clear()
        GO_ON.clear()
        async with (
            local(n_workers=2) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            futures = [
                client.submit(
                    wait_for_it, str(n), workers=[address], allow_other_workers=True
                )
                for n, address in enumerate(cluster.scheduler.workers)
            ]
            await until(lambda: sum(BEGUN.values()) == 2)
            await cluster.scale(1)
            assert len(cluster.scheduler.workers) == 2
            GO_ON.set()
            assert await client.gather(futures) == ["0", "1"]
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 1
            assert BEGUN == {"0": 1, "1": 1}

    try:
        run(main())
    finally:
        GO_ON.set()


@pytest.mark.parametrize("adaptive", [False, True], ids=["manual", "adaptive"])
def test_a_worker_that_the_scheduler_does_not_let_go_stays(adaptive: bool) -> None:
    async def main() -> None:
        async with (
            local(n_workers=2) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            value = await client.scatter("only here", hash=False)
            if adaptive:
                cluster.adapt(target=lambda: 0, interval=0.05, wait_count=1)
            else:
                await cluster.scale(0)
            await until(lambda: len(cluster.observed) == 1)
            await until(lambda: "held" in cluster.explain())
            assert await value == "only here"
            # It goes by itself once nobody holds the value any more.
            value.release()
            await until(lambda: not cluster.observed)

    run(main())
