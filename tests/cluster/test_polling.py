from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dask_fleet.cluster.hooks import WorkerReport
from dask_fleet.cluster.polling import CALM_FACTOR, SHORTEST_PAUSE, Poller
from dask_fleet.core import (
    Accepted,
    Cause,
    Ending,
    EndingKind,
    Fleet,
    Reason,
    Settings,
    decide,
)
from dask_fleet.core.causes import because
from dask_fleet.testing.fake_manager import FakeCluster
from tests.cluster.clock import now, run_virtual
from tests.cluster.support import events_of, fake, run, until

INTERVAL = 10.0
LIMIT = 60.0
PENDING = WorkerReport("pending", "Resources")
RUNNING = WorkerReport("running")


class Bench:
    """A poller, the books it looks at, and what it was told and tells."""

    def __init__(self, size: int = 1) -> None:
        self.fleet = Fleet(Settings(workers_per_instance=size))
        self.answer: object = {}
        self.asked: list[float] = []
        self.ended: list[tuple[str, Ending]] = []
        self.told: list[str] = []
        self.poller = Poller(
            self.poll,
            self.fleet,
            lambda token, ending: self.ended.append((token, ending)),
            lambda reasons: self.told.extend(map(str, reasons)),
            INTERVAL,
            LIMIT,
        )

    async def poll(self) -> Any:
        self.asked.append(now())
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.sleep(math.inf)
        return self.answer

    def look(self, workers: int, seen: set[str]) -> None:
        """Let the books take their course."""
        self.fleet.set_target(workers, now=now())
        self.fleet.commit(decide(self.fleet.snapshot(now(), frozenset(seen))))
        self.fleet.apply(Accepted(tuple(self.fleet.instances)), now())
        self.fleet.commit(decide(self.fleet.snapshot(now(), frozenset(seen))))
        self.poller.wake()


@asynccontextmanager
async def bench(size: int = 1) -> AsyncIterator[Bench]:
    made = Bench(size)
    made.poller.start()
    try:
        yield made
    finally:
        await made.poller.stop()


def test_nothing_is_asked_while_nothing_is_requested() -> None:
    async def main() -> None:
        async with bench() as it:
            it.poller.wake()
            await asyncio.sleep(100_000)
            assert it.asked == []

    run_virtual(main())


def test_it_is_asked_at_intervals_while_something_is_waited_for() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, set())
            await asyncio.sleep(3.5 * INTERVAL)
            assert it.asked == [INTERVAL, 2 * INTERVAL, 3 * INTERVAL]

    run_virtual(main())


def test_being_woken_often_does_not_ask_more_often() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, set())
            for _ in range(100):
                await asyncio.sleep(0.1)
                it.poller.wake()
            await asyncio.sleep(INTERVAL / 2)
            assert len(it.asked) == 1

    run_virtual(main())


def test_it_is_asked_rarely_once_all_are_there_and_never_once_none_is() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, {"0"})
            await asyncio.sleep(1.5 * CALM_FACTOR * INTERVAL)
            assert it.asked == [CALM_FACTOR * INTERVAL]
            it.poller._ended("0", Ending(EndingKind.ASKED, ""))
            it.fleet.closing = True
            it.look(0, {"0"})
            await asyncio.sleep(100_000)
            assert len(it.asked) == 1

    run_virtual(main())


def test_a_loss_is_asked_about_at_once() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, {"0"})
            await asyncio.sleep(2.0)
            it.look(1, set())
            await asyncio.sleep(0.1)
            assert it.asked == [2.0]
            # ... and then at the usual intervals.
            await asyncio.sleep(1.5 * INTERVAL)
            assert it.asked == [2.0, 2.0 + INTERVAL]

    run_virtual(main())


def test_losses_in_quick_succession_are_asked_about_together() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(3, {"0", "1", "2"})
            await asyncio.sleep(2.0)
            it.look(3, {"1", "2"})
            await asyncio.sleep(0.1)
            it.look(3, {"2"})
            await asyncio.sleep(0.1)
            it.look(3, set())
            await asyncio.sleep(INTERVAL / 2)
            assert it.asked == [2.0, 2.0 + SHORTEST_PAUSE]

    run_virtual(main())


def test_what_is_gone_has_ended_and_the_others_are_not_judged() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(4, {"0"})
            it.answer = {
                "0": RUNNING,
                "1": WorkerReport("gone", "exit code 1"),
                "2": PENDING,
                "of somebody else": WorkerReport("gone"),
            }
            await asyncio.sleep(1.5 * INTERVAL)
            assert it.ended == [("1", Ending(EndingKind.VANISHED, "exit code 1"))]
            assert it.poller.waiting == {"2": "Resources"}

    run_virtual(main())


@pytest.mark.parametrize(
    ("report", "ending"),
    [
        (
            WorkerReport("gone"),
            Ending(EndingKind.CRASHED, "the resource manager says that it is gone"),
        ),
        (
            WorkerReport("gone", "walltime", EndingKind.EXPIRED),
            Ending(EndingKind.EXPIRED, "walltime"),
        ),
    ],
)
def test_who_had_arrived_has_not_vanished_before(
    report: WorkerReport, ending: Ending
) -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, {"0"})
            it.look(1, set())
            it.answer = {"0": report}
            await asyncio.sleep(1.5 * INTERVAL)
            assert it.ended[0] == ("0", ending)

    run_virtual(main())


def test_an_instance_is_gone_once_however_many_workers_it_held() -> None:
    async def main() -> None:
        async with bench(size=2) as it:
            it.look(2, set())
            it.answer = {"0-0": WorkerReport("gone"), "0-1": WorkerReport("gone")}
            await asyncio.sleep(1.5 * INTERVAL)
            assert [token for token, _ in it.ended] == ["0"]

    run_virtual(main())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (OSError("no route to the queue"), "poll failed: no route to the queue"),
        (None, "poll failed: no answer within 60 s"),
        ([], "poll failed: TypeError: poll must return a mapping"),
        ({"0": "running"}, "got 'running' for '0'"),
        ({"0": None}, "got None for '0'"),
    ],
)
def test_a_poll_that_fails_is_told_once_and_judges_nobody(
    answer: object, words: str
) -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, set())
            it.answer = answer
            await asyncio.sleep(5 * (INTERVAL + LIMIT))
            assert len(it.asked) > 3
            assert len(it.told) == 1
            assert words in it.told[0]
            assert it.ended == []
            # Told again after it had gone well.
            it.answer = {}
            await asyncio.sleep(INTERVAL + LIMIT)
            it.answer = OSError("again")
            await asyncio.sleep(INTERVAL + LIMIT)
            assert it.told[1:] == ["poll failed: again"]

    run_virtual(main())


def test_another_problem_is_told_of_too() -> None:
    async def main() -> None:
        async with bench() as it:
            it.look(1, set())
            for problem in ("a", "a", "b"):
                it.answer = OSError(problem)
                await asyncio.sleep(INTERVAL)
            await asyncio.sleep(1)
            assert it.told == ["poll failed: a", "poll failed: b"]

    run_virtual(main())


def test_who_is_late_is_told_of_with_the_reason() -> None:
    poller = Bench().poller
    poller.waiting = {"1": "Resources"}
    late = because(Cause.LATE, "1", seconds=30.0, detail="")
    other = because(Cause.LATE, "2", seconds=30.0, detail="")
    arrived = because(Cause.ARRIVED, "1", count=1)
    told: list[Reason] = poller.with_details([late, other, arrived])
    assert [str(one) for one in told] == [
        "asked for 30 s ago and not here yet: Resources",
        "asked for 30 s ago and not here yet",
        "1 worker(s) arrived",
    ]


class Polled(FakeCluster):
    """Its resource manager tells nothing by itself."""

    tells = False
    poll_interval = 0.02
    reports: Mapping[str, WorkerReport]

    def __init__(self, **options: Any) -> None:
        self.reports = {}
        self.asked = 0
        super().__init__(**options)

    async def poll(self) -> Mapping[str, WorkerReport]:
        self.asked += 1
        return self.reports


@pytest.mark.integration
def test_in_a_cluster_a_start_that_failed_is_replaced_at_once() -> None:
    async def main() -> None:
        async with fake(Polled, wait=False) as cluster:
            assert isinstance(cluster, Polled)
            cluster.delay = 600
            cluster.reports = {"0": WorkerReport("pending", "waits for a node")}
            cluster.scale(1)
            await until(cluster, lambda: cluster.requested == {"0"})
            while not cluster._control.waiting:
                await asyncio.sleep(0)
            assert "0: asked for, not here yet" in cluster.explain()
            assert "(waits for a node)" in cluster.explain()
            cluster.delay = 0
            cluster.reports = {"0": WorkerReport("gone", "node died")}
            await until(cluster, lambda: cluster.observed == {"1"})
            (failed,) = events_of(cluster, Cause.START_FAILED)
            assert "vanished before arrival" in failed.sentence
            assert "node died" in failed.sentence

    run(main())


@pytest.mark.integration
def test_in_a_cluster_a_loss_is_explained_by_the_next_poll() -> None:
    async def main() -> None:
        async with fake(Polled, n_workers=1) as cluster:
            assert isinstance(cluster, Polled)
            cluster.reports = {"0": WorkerReport("gone", "preempted")}
            cluster.vanish("0")
            await until(cluster, lambda: bool(events_of(cluster, Cause.DIED)))
            assert "preempted" in events_of(cluster, Cause.DIED)[0].sentence

    run(main())


@pytest.mark.integration
def test_a_cluster_without_the_hook_has_no_poller() -> None:
    async def main() -> None:
        async with fake() as cluster:
            assert cluster._control._poller is None

    run(main())


def test_an_interval_that_is_none_is_refused() -> None:
    class Odd(Polled):
        poll_interval = 0

    async def main() -> None:
        with pytest.raises(ValueError, match="poll_interval must be a finite time"):
            Odd(asynchronous=True)

    run(main())
