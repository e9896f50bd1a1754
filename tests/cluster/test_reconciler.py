from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dask_fleet.cluster.performer import Performer
from dask_fleet.cluster.pulse import Pulse
from dask_fleet.cluster.reconciler import FAULT_PAUSE, Reconciler
from dask_fleet.core import Decision, Ended, Ending, EndingKind, Fleet, Snapshot, State
from tests.cluster.clock import now, run_virtual

DAY = 86_400.0


class Bench:
    """A reconciler, its books, a scheduler and a resource manager of a few lines."""

    def __init__(self) -> None:
        self.fleet = Fleet()
        self.seen: set[str] | None = set()
        self.calls: list[tuple[float, str, tuple[str, ...]]] = []
        self.looks: list[float] = []
        self.told: list[str] = []
        self.problem: Exception | None = None
        #: Seconds that each hook takes.
        self.takes = {"scale_up": 0.0, "scale_down": 0.0, "workers_to_close": 0.0}
        self.pulse = Pulse()
        performer = Performer(
            self,
            self,  # type: ignore[arg-type]  # its recall and the like are not needed
            lambda token: self.fleet.instances[token].workers,
            math.inf,
            lambda: self.fleet.closing,
        )
        self.reconciler = Reconciler(
            self.fleet,
            performer,
            self.look_around,
            self.decided,
            lambda reasons: self.told.extend(map(str, reasons)),
            self.pulse,
        )

    def look_around(self) -> frozenset[str] | None:
        if self.problem is not None:
            raise self.problem
        return None if self.seen is None else frozenset(self.seen)

    def decided(self, snapshot: Snapshot, decision: Decision) -> None:
        self.looks.append(snapshot.now)

    async def called(self, hook: str, workers: list[str]) -> None:
        self.calls.append((now(), hook, tuple(workers)))
        await asyncio.sleep(self.takes[hook])

    async def scale_up(self, workers: list[str]) -> None:
        await self.called("scale_up", workers)

    async def scale_down(self, workers: list[str]) -> None:
        await self.called("scale_down", workers)
        assert self.seen is not None
        self.seen.difference_update(workers)
        self.reconciler.wake()

    async def workers_to_close(self, target: int) -> list[str]:
        await self.called("workers_to_close", [])
        return sorted(self.seen or ())[target:]

    async def leave(self, instances: list[list[str]]) -> AsyncIterator[tuple[str, str]]:
        for names in instances:
            yield names[0], ""

    def sees(self, workers: Any) -> bool:
        return False

    def why_not_more(self) -> str:
        return ""

    def scale(self, workers: int) -> None:
        self.fleet.set_target(workers, now=now())
        self.reconciler.wake()

    def arrive(self, *names: str) -> None:
        assert self.seen is not None
        self.seen.update(names)
        self.reconciler.wake()

    async def settle(self) -> None:
        """Let everything happen that takes no time."""
        await asyncio.sleep(0.01)


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    made.reconciler.start()
    try:
        await made.settle()
        yield made
    finally:
        await made.reconciler.stop()


def test_an_empty_fleet_causes_no_work() -> None:
    async def main() -> None:
        async with bench() as it:
            begun = len(it.looks)
            await asyncio.sleep(DAY)
            assert len(it.looks) == begun

    run_virtual(main())


def test_a_fleet_at_rest_causes_no_work() -> None:
    async def main() -> None:
        async with bench() as it:
            it.scale(3)
            await it.settle()
            it.arrive("0", "1", "2")
            await it.settle()
            assert it.fleet.plan == it.seen
            await asyncio.sleep(60)  # what is remembered of the starts has passed
            begun = len(it.looks)
            await asyncio.sleep(DAY)
            assert len(it.looks) == begun
            assert [hook for _, hook, _ in it.calls] == ["scale_up"]

    run_virtual(main())


def test_it_sleeps_until_the_moment_that_the_decision_named() -> None:
    async def main() -> None:
        async with bench() as it:
            it.scale(1)
            await it.settle()
            begun = len(it.looks)
            requested = it.fleet.instances["0"].since
            deadlines = it.fleet.settings.deadlines
            await asyncio.sleep(deadlines.start_fail - 1)
            woken = it.looks[begun:]
            assert woken == pytest.approx([requested + deadlines.start_warn], abs=0.01)
            assert woken[0] >= requested + deadlines.start_warn

    run_virtual(main())


def test_one_look_follows_however_often_it_is_woken() -> None:
    async def main() -> None:
        async with bench() as it:
            begun = len(it.looks)
            for _ in range(100):
                it.reconciler.wake()
            await it.settle()
            assert len(it.looks) == begun + 1

    run_virtual(main())


def test_the_same_facts_give_no_second_command() -> None:
    async def main() -> None:
        async with bench() as it:
            it.takes["scale_up"] = 5
            it.scale(2)
            for _ in range(10):
                it.reconciler.look()
                await asyncio.sleep(1)
            assert [names for _, _, names in it.calls] == [("0", "1")]

    run_virtual(main())


def test_the_last_target_wins_and_calls_do_not_queue_up() -> None:
    async def main() -> None:
        async with bench() as it:
            it.takes["scale_up"] = 5
            for target in (1, 7, 3, 9, 4):
                it.scale(target)
                await it.settle()
            await asyncio.sleep(20)
            asked = [name for _, hook, names in it.calls for name in names]
            assert len(it.fleet.plan) == 4
            assert len(asked) == len(set(asked)) <= 9

    run_virtual(main())


def test_a_stuck_end_does_not_hold_up_a_start() -> None:
    async def main() -> None:
        async with bench() as it:
            it.scale(1)
            await it.settle()
            it.takes["scale_down"] = math.inf
            it.scale(0)
            await it.settle()
            assert it.fleet.instances["0"].state is State.LEAVING
            it.scale(1)
            await it.settle()
            assert it.calls[-1][1:] == ("scale_up", ("1",))
            assert it.fleet.requested == {"1"}

    run_virtual(main())


def test_a_fault_in_a_decision_does_not_end_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with bench() as it:
            it.problem = ZeroDivisionError("a fault of ours")
            it.scale(1)
            await it.settle()
            assert it.told == ["deciding failed: ZeroDivisionError: a fault of ours"]
            it.problem = None
            await asyncio.sleep(FAULT_PAUSE + 0.1)
            assert it.calls[-1][1:] == ("scale_up", ("0",))

    with caplog.at_level(logging.CRITICAL):
        run_virtual(main())


def test_a_fault_while_performing_does_not_end_the_loop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with bench() as it:
            with monkeypatch.context() as broken:
                fault = ZeroDivisionError("a fault of ours")
                broken.setattr(it.fleet, "apply", raising(fault))
                it.scale(1)
                await it.settle()
            assert it.told == ["performing failed: ZeroDivisionError: a fault of ours"]
            it.fleet.set_target(0, now=now())
            it.reconciler.apply(Ended("0", Ending(EndingKind.ASKED, "")))
            await it.settle()
            assert not it.fleet.instances

    with caplog.at_level(logging.CRITICAL):
        run_virtual(main())


def raising(error: Exception) -> Any:
    def function(*_: object) -> None:
        raise error

    return function


def test_a_fact_wakes_it() -> None:
    async def main() -> None:
        async with bench() as it:
            it.scale(1)
            await it.settle()
            it.reconciler.apply(Ended("0", Ending(EndingKind.CRASHED, "exit code 1")))
            await it.settle()
            assert "0" not in it.fleet.instances

    run_virtual(main())


def test_while_the_scheduler_is_silent_nobody_is_lost_and_nobody_leaves() -> None:
    async def main() -> None:
        async with bench() as it:
            it.scale(2)
            await it.settle()
            it.arrive("0", "1")
            await it.settle()
            it.seen = None
            it.scale(1)
            await asyncio.sleep(DAY)
            assert {one.state for one in it.fleet.instances.values()} == {State.ARRIVED}
            it.seen = {"0", "1"}
            it.reconciler.wake()
            await asyncio.sleep(60)
            assert it.fleet.plan == it.seen == {"0"}

    run_virtual(main())


def test_whoever_waits_is_told_after_each_look() -> None:
    async def main() -> None:
        async with bench() as it:
            waiting = asyncio.ensure_future(it.pulse.until(lambda: bool(it.fleet.plan)))
            await it.settle()
            assert not waiting.done()
            it.scale(1)
            await it.settle()
            assert waiting.done()

    run_virtual(main())


def test_after_stop_nothing_happens_any_more() -> None:
    async def main() -> None:
        async with bench() as it:
            it.takes["scale_up"] = math.inf
            it.scale(1)
            await it.settle()
            await it.reconciler.stop()
            begun = len(it.looks)
            it.scale(5)
            await asyncio.sleep(DAY)
            assert len(it.looks) == begun
            assert len(asyncio.all_tasks()) == 1

    run_virtual(main())
