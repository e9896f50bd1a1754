"""A worker that dies is replaced within seconds, in every mode, for whatever cause."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest
from distributed import KilledWorker, Nanny

from dask_fleet import LocalCluster
from dask_fleet.core import Cause
from tests.faults.support import (
    client_of,
    events_of,
    local,
    pid_of,
    run,
    soon,
    told,
    until,
)

pytestmark = pytest.mark.integration

#: What happens to the worker of a name.
Death = Callable[[LocalCluster, str], Awaitable[None]]

#: Seconds in which a worker is replaced on a busy machine; a quiet one needs one.
SECONDS = 15


def by_signal(signum: signal.Signals) -> Death:
    async def kill(cluster: LocalCluster, name: str) -> None:
        os.kill(pid_of(cluster, name), signum)

    return kill


async def segfault(cluster: LocalCluster, name: str) -> None:
    async with client_of(cluster) as client:
        task = client.submit(_read_nowhere, workers=[name], pure=False)
        with pytest.raises(KilledWorker):
            await task


def _read_nowhere() -> None:
    import ctypes

    ctypes.string_at(0)


async def out_of_memory(cluster: LocalCluster, name: str) -> None:
    """The nanny ends a worker whose memory has grown beyond its limit."""
    async with client_of(cluster) as client:
        task = client.submit(_fill, 400_000_000, workers=[name], pure=False)
        with pytest.raises(KilledWorker):
            await task


def _fill(size: int) -> int:
    import time

    memory = bytearray(os.urandom(1)) * size
    time.sleep(60)
    return len(memory)


async def with_its_nanny(cluster: LocalCluster, name: str) -> None:
    nanny = cluster.workers[name]
    assert isinstance(nanny, Nanny)
    await nanny.close()


DEATHS = {
    "SIGKILL": by_signal(signal.SIGKILL),
    "SIGTERM": by_signal(signal.SIGTERM),
    "segfault": segfault,
    "out of memory": out_of_memory,
    "with its nanny": with_its_nanny,
}


@pytest.mark.parametrize("adaptive", [False, True], ids=["manual", "adaptive"])
@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
def test_replaced_within_seconds(death: Death, adaptive: bool) -> None:
    async def main() -> None:
        async with local(n_workers=2, memory_limit="300 MB") as cluster:
            if adaptive:
                cluster.adapt(minimum=2, maximum=2)
            victim, other = sorted(cluster.observed)
            await death(cluster, victim)
            await asyncio.wait_for(
                until(cluster, lambda: victim not in cluster.plan), SECONDS
            )
            await asyncio.wait_for(cluster.wait_for_workers(), SECONDS)
            assert other in cluster.observed
            assert victim not in cluster.observed
            assert len(cluster.observed) == len(cluster.workers) == 2
            assert cluster.mode == ("adaptive" if adaptive else "manual")

    run(main())


def test_the_history_says_how_it_died() -> None:
    """In the words of the operating system, wherever one looks."""

    async def main() -> None:
        async with local(n_workers=2) as cluster:
            victim = min(cluster.observed)
            words = f"process {pid_of(cluster, victim)} was killed by signal 9"
            os.kill(pid_of(cluster, victim), signal.SIGKILL)
            await until(cluster, lambda: victim not in cluster.plan)
            assert words in told(cluster, Cause.DIED)
            assert words in cluster.explain()
            assert words in cluster.state.last
            assert words in repr(cluster)

    run(main())


def test_a_worker_that_outgrew_its_memory_is_said_to_have() -> None:
    async def main() -> None:
        async with local(n_workers=1, memory_limit="300 MB") as cluster:
            await out_of_memory(cluster, "0")
            await until(cluster, lambda: "0" not in cluster.plan)
            assert "out of memory: it used more than 95%" in told(cluster, Cause.DIED)

    run(main())


def test_the_fork_server_dies_and_all_its_workers_with_it() -> None:
    async def main() -> None:
        async with local(n_workers=2) as cluster:
            first = cluster.observed
            assert cluster._fork_server is not None
            os.kill(cluster._fork_server.pid, signal.SIGKILL)
            await until(cluster, lambda: cluster.plan.isdisjoint(first))
            await asyncio.wait_for(cluster.wait_for_workers(), SECONDS)
            assert len(cluster.observed) == 2
            assert "its fork server" in told(cluster, Cause.DIED)

    run(main())


def test_a_worker_that_a_client_restarts_is_not_counted_twice() -> None:
    """Its nanny starts it again under its name; the cluster starts nothing."""

    async def main() -> None:
        async with local(n_workers=2) as cluster, client_of(cluster) as client:
            names, pids = cluster.observed, await client.run(os.getpid)
            starts = len(events_of(cluster, Cause.STARTING))
            await client.restart()
            assert cluster.observed == cluster.plan == names
            assert set((await client.run(os.getpid)).values()).isdisjoint(pids.values())
            await cluster.wait_for_workers()
            assert len(events_of(cluster, Cause.STARTING)) == starts
            assert not events_of(cluster, Cause.DIED)
            assert cluster.state.health == "ok"

    run(main())


def test_a_worker_that_leaves_because_we_asked_is_no_failure() -> None:
    async def main() -> None:
        async with local(n_workers=3) as cluster:
            await cluster.scale(1)
            await cluster.wait_for_workers()
            await soon(lambda: len(cluster.workers) == 1)
            assert not events_of(cluster, Cause.DIED)
            assert not events_of(cluster, Cause.LOST)
            assert cluster.state.health == "ok"

    run(main())


def test_a_worker_that_a_client_sends_home_is_replaced_and_is_no_failure() -> None:
    async def main() -> None:
        async with local(n_workers=2) as cluster, client_of(cluster) as client:
            address = min(cluster.scheduler_info["workers"])
            name = cluster.scheduler_info["workers"][address]["name"]
            # Somebody who leaves within a second of coming has not really been there.
            await asyncio.sleep(cluster._control.fleet.settings.patience.proof)
            await client.retire_workers([address])
            await until(cluster, lambda: name not in cluster.plan)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 2
            assert not events_of(cluster, Cause.DIED)
            assert cluster.state.health == "ok"

    run(main())
