"""A resource manager that does not answer: everything else goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import dask
import pytest

from dask_fleet import WorkerReport
from dask_fleet.core import Cause
from dask_fleet.testing.fake_manager import FakeCluster
from tests.faults.support import events_of, run, soon, told, until

pytestmark = pytest.mark.integration

#: A call that hangs is given up after so long.
DEADLINE = 0.3

QUICK = {
    "fleet.patience.first-pause": "50ms",
    "fleet.call-timeout": f"{DEADLINE} s",
    "fleet.deadlines.leave": "100ms",
}


class Manager(FakeCluster):
    """Calls hang while their name is among ``stuck``; ``poll`` is one of them."""

    poll_interval = 0.05

    def __init__(self, **options: Any) -> None:
        self.stuck: set[str] = set()
        self.polls = 0
        super().__init__(**options)

    async def before(self, hook: str, names: list[str]) -> None:
        if hook in self.stuck:
            await asyncio.Event().wait()

    async def poll(self) -> Mapping[str, WorkerReport]:
        self.polls += 1
        await self.before("poll", [])
        return {name: WorkerReport("running") for name in self.lives}


@contextlib.asynccontextmanager
async def manager(**options: Any) -> AsyncIterator[Any]:
    with dask.config.set(QUICK):
        async with Manager(asynchronous=True, **options) as cluster:
            try:
                yield cluster
            finally:
                cluster.stuck.clear()


def test_scale_up_hangs_and_workers_leave_all_the_same() -> None:
    async def main() -> None:
        async with manager(n_workers=2) as cluster:
            cluster.stuck = {"scale_up"}
            cluster.scale(3)
            await until(cluster, lambda: len(cluster.plan) == 3)
            cluster.scale(1)
            await until(cluster, lambda: len(cluster.observed) == 1)
            await until(cluster, lambda: bool(events_of(cluster, Cause.START_FAILED)))
            assert "scale_up did not return within 0.3 s" in cluster.explain()
            assert cluster.plan == cluster.observed

    run(main())


def test_scale_up_hangs_once_and_the_next_try_brings_the_worker() -> None:
    async def main() -> None:
        async with manager() as cluster:
            cluster.stuck = {"scale_up"}
            cluster.scale(1)
            await until(cluster, lambda: bool(events_of(cluster, Cause.START_FAILED)))
            cluster.stuck.clear()
            await cluster.wait_for_workers()
            assert cluster.observed == {"1"}, "the name of the first try is not reused"
            dropped = [names for hook, names in cluster.calls if hook == "scale_down"]
            assert ("0",) in dropped, "whatever the late call made is taken down"

    run(main())


def test_scale_down_hangs_and_workers_start_all_the_same() -> None:
    """It is tried again until it succeeds, later and later."""

    async def main() -> None:
        async with manager(n_workers=2) as cluster:
            cluster.stuck = {"scale_down"}
            cluster.scale(1)
            await soon(lambda: "scale_down" in dict(cluster.calls))
            cluster.scale(3)
            await cluster.wait_for_workers(3)
            words = "scale_down failed: scale_down did not return within 0.3 s"
            await until(cluster, lambda: words in told(cluster, Cause.CALL_FAILED))
            assert words in cluster.explain()
            cluster.stuck.clear()
            books = cluster._control.fleet.instances
            await until(cluster, lambda: len(books) == len(cluster.observed) == 3)

    run(main())


def test_a_stuck_close_is_told_of() -> None:
    async def main() -> None:
        async with manager(n_workers=2) as cluster:
            cluster.stuck = {"scale_down"}
            cluster.scale(1)
            await until(cluster, lambda: len(events_of(cluster, Cause.STUCK)) >= 2)
            assert "told to leave 2 time(s) and not gone yet" in cluster.explain()

    run(main())


def test_poll_hangs_and_nothing_else_does() -> None:
    """Nothing is judged meanwhile; it is said once."""

    async def main() -> None:
        async with manager(n_workers=1) as cluster:
            cluster.stuck = {"poll"}
            cluster.scale(2)
            await cluster.wait_for_workers()
            cluster.lose = lambda name: True
            cluster.scale(3)
            words = "poll failed: no answer within 0.3 s"
            await soon(lambda: words in told(cluster, Cause.CALL_FAILED))
            polls = cluster.polls
            await soon(lambda: cluster.polls > polls + 1)
            assert told(cluster, Cause.CALL_FAILED) == words
            cluster.scale(1)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 1

    run(main())


def test_everything_hangs_and_close_ends_in_time() -> None:
    async def main() -> None:
        with dask.config.set(QUICK):
            cluster: Any = await Manager(asynchronous=True, n_workers=2)
            cluster.stuck = {"scale_up", "scale_down", "poll"}
            cluster.scale(3)
            await until(cluster, lambda: len(cluster.plan) == 3)
            await asyncio.wait_for(cluster.close(timeout=2), 4)
            assert cluster.status.name == "closed"
            assert not cluster.lives, "they were ended by force"

    run(main())
