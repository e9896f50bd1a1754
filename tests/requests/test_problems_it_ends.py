"""The rows of "The problem it ends", each as it should be."""

from __future__ import annotations

import asyncio
import logging

import dask
import pytest
from distributed import Client, Worker

from dask_fleet import StartError
from dask_fleet.testing.fake_manager import FakeCluster
from tests.requests.support import Bare, bare, causes, local, run, until

pytestmark = pytest.mark.integration


def test_the_value_of_the_newest_worker_survives_scale_1() -> None:
    async def main() -> None:
        async with (
            local(n_workers=2) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            newest = list(cluster.scheduler.workers)[-1]
            value = await client.scatter("only here", workers=[newest], hash=False)
            await cluster.scale(1)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 1
            assert await value == "only here"

    run(main())


def test_a_start_that_always_raises_is_not_counted_and_is_tried_again() -> None:
    class NoRoom(Bare):
        async def scale_up(self, workers: list[str]) -> None:
            self.asked = (*self.asked, tuple(workers))
            raise OSError("no room")

    async def main() -> None:
        async with bare(NoRoom) as cluster:
            await cluster.scale(2)
            await until(lambda: cluster.state.health != "ok")
            assert cluster.requested == set()
            assert "no room" in cluster.explain()
            calls = len(cluster.asked)
            await cluster.scale(2)
            await until(lambda: len(cluster.asked) > calls)
            assert cluster.requested == set()
            names = [name for call in cluster.asked for name in call]
            assert len(names) == len(set(names)), "a name is never given twice"
            with pytest.raises(StartError, match="no room"):
                await cluster.wait_for_workers(2)

    run(main())


@pytest.mark.parametrize("tells", [True, False], ids=["told", "found out"])
@pytest.mark.parametrize("adaptive", [False, True], ids=["manual", "adaptive"])
def test_a_worker_that_dies_is_replaced(tells: bool, adaptive: bool) -> None:
    async def main() -> None:
        async with FakeCluster(asynchronous=True, n_workers=2) as cluster:
            cluster.tells = tells
            if adaptive:
                cluster.adapt(minimum=2, maximum=2)
            victim = sorted(cluster.observed)[0]
            cluster.vanish(victim)
            await until(lambda: victim not in cluster.plan)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == len(cluster.plan) == 2

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "200ms"}):
        run(main())


def test_workers_that_die_at_birth_are_few_and_are_talked_about() -> None:
    class Mayfly(Worker):
        async def start_unsafe(self) -> Worker:
            await Worker.start_unsafe(self)
            self.loop.call_later(0.1, self.close)
            return self

    class Mayflies(Bare):
        kind = Mayfly

    async def main() -> None:
        async with bare(Mayflies) as cluster:
            cluster.adapt(minimum=1, maximum=4, interval=0.1)
            await asyncio.sleep(6)
            assert 2 <= len(cluster.born) <= 10
            assert cluster.state.health != "ok"
            assert {"pause after failures", "breaker"} & set(causes(cluster))

    settings = {"distributed.deploy.lost-worker-timeout": "50ms"}
    with dask.config.set(settings):
        run(main())


def test_a_worker_that_never_comes_has_a_deadline_and_a_word() -> None:
    class Lost(FakeCluster):
        def lose(self, name: str) -> bool:
            return True

    async def main() -> None:
        async with Lost(asynchronous=True) as cluster:
            await cluster.scale(1)
            (name,) = cluster.requested
            await until(lambda: name not in cluster.requested)
            assert "late" in causes(cluster)
            assert "start failed" in causes(cluster)
            with pytest.raises(StartError):
                await cluster.wait_for_workers()

    settings = {
        "fleet.deadlines.start-warn": "100ms",
        "fleet.deadlines.start-fail": "200ms",
        "fleet.patience.first-pause": "50ms",
    }
    with dask.config.set(settings):
        run(main())


def test_scale_after_adapt_stays() -> None:
    async def main() -> None:
        async with bare() as cluster:
            handle = cluster.adapt(interval=0.05, wait_count=1, maximum=4)
            await cluster.scale(3)
            await cluster.wait_for_workers(3, exactly=True)
            await asyncio.sleep(1)  # twenty looks, had it stayed on
            assert len(cluster.observed) == 3
            assert cluster.mode == "manual"
            assert handle.state == "stopped"

    run(main())


def test_eight_workers_in_groups_of_four_are_two_jobs() -> None:
    class Jobs(Bare):
        workers_per_instance = 4

    async def main() -> None:
        async with bare(Jobs) as cluster:
            await cluster.scale(8)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == len(cluster.plan) == 8
            names = [name for call in cluster.asked for name in call]
            assert len({name.rpartition("-")[0] for name in names}) == 2

    run(main())


@pytest.mark.parametrize("options", [{}, {"wait_count": 20}], ids=["default", "2 s"])
def test_short_pauses_are_no_reason_to_leave(options: dict[str, int]) -> None:
    async def main() -> None:
        async with bare() as cluster, Client(cluster, asynchronous=True) as client:
            cluster.adapt(minimum=0, maximum=1, interval="100ms", **options)
            for _ in range(6):
                assert await client.submit(abs, -1, pure=False) == 1
                await asyncio.sleep(0.6)
            assert len(cluster.born) == 1

    logging.getLogger("distributed").setLevel(logging.WARNING)
    run(main())
