"""A worker on its way out finishes what it runs, and gets nothing new."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from distributed import secede
from distributed.core import Status
from distributed.scheduler import KilledWorker

from dask_fleet.scheduler import TAKEN_BACK
from dask_fleet.scheduler.moving import NOBODY
from tests.scheduler.support import GATES, Side, run, side, wait_at

#: Every ready task goes to a worker at once, so that there is something to ask back.
NO_QUEUE = {"distributed.scheduler.worker-saturation": float("inf")}

#: Nothing but what a test is about moves a task.
NO_STEALING = {"distributed.scheduler.work-stealing": False}


def has_said(said: Any, status: Status) -> bool:
    return bool(said.status is status)


def add(x: int, y: int = 1) -> int:
    return x + y


async def begun(one: Side, gate: str, times: int = 1) -> None:
    await one.eyes.until(lambda: GATES.begun.get(gate, 0) >= times)


def suspicious(one: Side) -> int:
    return sum(ts.suspicious for ts in one.scheduler.tasks.values())


def test_what_runs_is_finished_once_and_nothing_new_starts() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate", 1)
            await begun(one, "gate")
            leaving = await one.ask("a")
            others = [one.on("a", add, n) for n in range(5)]
            assert await one.client.gather(others) == [1, 2, 3, 4, 5]
            places = {one.eyes.places[future.key][0] for future in others}
            assert places == {one.address("b")}
            assert not leaving.done()
            GATES.open("gate")
            assert await leaving == ""
            assert one.eyes.computed[running.key] == 1
            assert await running == 1
            assert suspicious(one) == 0

    run(main())


def test_what_was_not_begun_goes_elsewhere() -> None:
    async def main() -> None:
        async with side("a", "b", config=NO_QUEUE | NO_STEALING) as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            waiting = [
                one.client.submit(add, n, workers=[one.address("a")], pure=False)
                for n in range(500)
            ]
            await one.eyes.until(lambda: len(one.state("a").processing) == 501)
            for future in waiting:
                one.scheduler.tasks[future.key].loose_restrictions = True
            leaving = await one.ask("a")
            await one.client.gather(waiting)
            assert {one.eyes.places[future.key][0] for future in waiting} == {
                one.address("b")
            }
            assert all(one.eyes.computed[future.key] == 1 for future in waiting)
            GATES.open("gate")
            assert await leaving == ""
            del running

    run(main())


def test_it_leaves_as_soon_as_its_tasks_are_taken() -> None:
    """Not only once somebody else has run them."""

    async def main() -> None:
        async with side("a", "b", "c", config=NO_QUEUE | NO_STEALING) as one:
            busy = [one.on(name, wait_at, f"gate-{name}") for name in "abc"]
            for name in "abc":
                await begun(one, f"gate-{name}")
            waiting = one.on("a", add, 1)
            await one.eyes.until(lambda: len(one.state("a").processing) == 2)
            leaving = await one.ask("a")
            await one.eyes.until(lambda: len(one.state("a").processing) == 1)
            GATES.open("gate-a")
            assert await leaving == ""
            assert not waiting.done()
            for name in "bc":
                GATES.open(f"gate-{name}")
            assert await waiting == 2
            del busy

    run(main())


def test_tasks_that_only_it_may_run_are_run_there_first() -> None:
    async def main() -> None:
        async with side("a", "b", config=NO_QUEUE) as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            bound = [
                one.client.submit(add, n, workers=[one.address("a")], pure=False)
                for n in range(3)
            ]
            await one.eyes.until(lambda: len(one.state("a").processing) == 4)
            leaving = await one.ask("a")
            GATES.open("gate")
            assert await leaving == ""
            assert await one.client.gather(bound) == [1, 2, 3]
            assert {one.eyes.places[future.key][0] for future in bound} == {
                one.address("a")
            }
            del running

    run(main())


def test_if_everybody_leaves_unbegun_tasks_wait_for_others_to_come() -> None:
    async def main() -> None:
        async with side("a", config=NO_QUEUE) as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            waiting = one.client.submit(add, 1)
            await one.eyes.until(lambda: len(one.state("a").processing) == 2)
            leaving = await one.ask("a")
            await one.eyes.until(lambda: len(one.state("a").processing) == 1)
            running.release()
            assert await leaving == ""
            await one.add("b")
            assert await waiting == 2

    run(main())


def test_if_everybody_leaves_tasks_with_a_preference_are_run_first() -> None:
    """The scheduler would keep them for the worker that they name, for ever."""

    async def main() -> None:
        async with side("a", config=NO_QUEUE) as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            waiting = one.on("a", add, 1)
            await one.eyes.until(lambda: len(one.state("a").processing) == 2)
            leaving = await one.ask("a")
            GATES.open("gate")
            assert await waiting == 2
            assert await leaving == NOBODY
            del running

    run(main())


def test_a_task_that_is_being_stolen_does_not_come_in_through_the_back_door() -> None:
    async def main() -> None:
        rarely = {"distributed.scheduler.work-stealing-interval": "1h"}
        async with side("a", config=NO_QUEUE | rarely) as one:
            busy = [one.on("a", wait_at, "gate-a")]
            await begun(one, "gate-a")
            moved = one.client.submit(add, 1, pure=False)
            await one.eyes.until(lambda: len(one.state("a").processing) == 2)
            await one.add("b", "c")
            busy.append(one.on("b", wait_at, "gate-b"))
            await begun(one, "gate-b")
            stealing: Any = one.scheduler.extensions["stealing"]
            ts = one.scheduler.tasks[moved.key]
            # "b" is to have it, but is shut before "a" has given it up.
            stealing.move_task_request(ts, one.state("a"), one.state("b"))
            leaving = await one.ask("b")
            assert await moved == 2
            assert one.eyes.places[moved.key] == [one.address("c")]
            assert not stealing.in_flight
            GATES.open("gate-b")
            assert await leaving == ""
            del busy

    run(main())


def test_a_worker_that_pauses_and_resumes_stays_shut() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            leaving = await one.ask("a")
            for status in (Status.paused, Status.running):
                one.workers["a"].status = status
                said = one.drains._gate._shut[one.address("a")]
                await one.eyes.until(partial(has_said, said, status))
                assert one.state("a") not in one.scheduler.running
            other = one.on("a", add, 1)
            assert await other == 2
            assert one.eyes.places[other.key] == [one.address("b")]
            GATES.open("gate")
            assert await leaving == ""
            del running

    run(main())


def test_a_paused_worker_that_is_taken_back_is_still_paused() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            leaving = await one.ask("a")
            one.workers["a"].status = Status.paused
            said = one.drains._gate._shut[one.address("a")]
            await one.eyes.until(lambda: said.status is Status.paused)
            assert one.drains.recall([["a"]]) == ["a"]
            assert one.state("a").status is Status.paused
            one.workers["a"].status = Status.running
            await one.eyes.until(lambda: one.state("a").status is Status.running)
            assert await leaving == TAKEN_BACK
            del running

    run(main())


def drive(gate: str) -> int:
    secede()
    wait_at(gate)
    return 7


def test_a_task_that_has_left_its_thread_pool_is_waited_for() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            driver = one.on("a", drive, "gate")
            await one.eyes.until(lambda: one.state("a").long_running)
            leaving = await one.ask("a")
            assert await one.on("a", add, 1) == 2
            assert not leaving.done()
            GATES.open("gate")
            assert await leaving == ""
            assert await driver == 7
            assert one.eyes.computed[driver.key] == 1

    run(main())


def test_when_time_is_up_others_run_its_tasks_and_nobody_is_to_blame() -> None:
    async def main() -> None:
        allowed = {"distributed.scheduler.allowed-failures": 0}
        async with side("a", "b", config=allowed) as one:
            running = one.on("a", wait_at, "gate", 7)
            await begun(one, "gate")
            leaving = await one.ask("a", timeout=0.05)
            await begun(one, "gate", times=2)
            assert await leaving == ""
            await one.workers["a"].close(executor_wait=False, nanny=False)
            GATES.open("gate")
            assert await running == 7
            assert suspicious(one) == 0
            assert one.eyes.places[running.key] == [one.address("b")]

    run(main())


def test_no_time_at_all() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            assert await one.leave(["a"], timeout=0.0) == {"a": ""}
            await begun(one, "gate", times=2)
            del running

    run(main())


def test_a_later_word_shortens_and_lengthens_the_time() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            first = await one.ask("a", timeout=None)
            second = asyncio.create_task(one.leave(["a"], timeout=60))
            await asyncio.sleep(0)
            assert one.drains._departures["a"].deadline is not None
            third = asyncio.create_task(one.leave(["a"], timeout=0.0))
            assert await first == ""
            assert await second == await third == {"a": ""}
            del running

    run(main())


# -------------------------------------------------------------------------- taken back


def test_taken_back_it_works_on_at_once() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            before = one.plugins
            running = one.on("a", wait_at, "gate", 7)
            await begun(one, "gate")
            leaving = await one.ask("a")
            bound = one.client.submit(add, 1, workers=[one.address("a")])
            await one.eyes.until(lambda: bound.key in one.scheduler.tasks)
            assert one.drains.recall([["a"], ["nobody"]]) == ["a"]
            assert one.plugins == before
            assert one.state("a") in one.scheduler.running
            assert await leaving == TAKEN_BACK
            GATES.open("gate")
            assert await bound == 2
            assert await running == 7
            assert one.eyes.computed[running.key] == 1
            # And it may leave another day.
            assert await one.leave(["a"]) == {"a": ""}

    run(main())


def test_taken_back_and_asked_again_before_anybody_looks() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            first = await one.ask("a")
            one.drains.recall([["a"]])
            second = await one.ask("a")
            assert await first == TAKEN_BACK
            assert not second.done()
            assert one.state("a").status is Status.closing_gracefully
            GATES.open("gate")
            assert await second == ""
            del running

    run(main())


# ----------------------------------------------------------------- what else may happen


def test_a_worker_dies_on_its_way_out() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate", 7)
            await begun(one, "gate")
            leaving = await one.ask("a")
            await one.workers["a"].close(executor_wait=False, nanny=False)
            assert await leaving == ""
            GATES.open("gate")
            assert await running == 7

    run(main())


def test_one_of_a_group_dies_on_its_way_out() -> None:
    async def main() -> None:
        async with side("a0", "a1", "b") as one:
            kept = await one.hold("a1", nbytes=1000)
            running = [one.on(name, wait_at, f"gate-{name}") for name in ("a0", "a1")]
            for name in ("a0", "a1"):
                await begun(one, f"gate-{name}")
            leaving = await one.ask("a0", "a1")
            await one.workers["a0"].close(executor_wait=False, nanny=False)
            assert not leaving.done()
            for name in ("a0", "a1"):
                GATES.open(f"gate-{name}")
            assert await leaving == ""
            assert len(await kept) > 0
            await one.client.gather(running)

    run(main())


def test_all_workers_of_an_instance_leave_together() -> None:
    async def main() -> None:
        async with side("a0", "a1", "b") as one:
            running = one.on("a1", wait_at, "gate")
            await begun(one, "gate")
            leaving = await one.ask("a0", "a1")
            future = one.on("a0", add, 1)
            assert await future == 2
            assert one.eyes.places[future.key] == [one.address("b")]
            assert not leaving.done()
            GATES.open("gate")
            assert await leaving == ""
            del running

    run(main())


def test_two_drains_at_once_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            before = one.plugins
            running = [one.on(name, wait_at, f"gate-{name}") for name in "ab"]
            for name in "ab":
                await begun(one, f"gate-{name}")
            first, second = await one.ask("a"), await one.ask("b")
            assert len(one.plugins) == len(before) + 1
            GATES.open("gate-b")
            assert await second == ""
            assert not first.done()
            GATES.open("gate-a")
            assert await first == ""
            assert one.plugins == before
            del running

    run(main())


def test_a_client_cancels_what_it_runs() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            leaving = await one.ask("a")
            await one.client.cancel([running])
            assert await leaving == ""

    run(main())


def test_an_erring_task_ends_a_drain_too() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            failing = one.on("a", fail, "gate")
            await begun(one, "gate")
            leaving = await one.ask("a")
            GATES.open("gate")
            assert await leaving == ""
            with pytest.raises(ZeroDivisionError):
                await failing

    run(main())


def fail(gate: str) -> float:
    wait_at(gate)
    return 1 / 0


def test_workers_that_nobody_knows_have_left() -> None:
    async def main() -> None:
        async with side("a") as one:
            before = one.plugins
            assert await one.leave(["x"], ["y", "z"]) == {"x": "", "y": ""}
            assert await one.leave() == {}
            assert one.plugins == before

    run(main())


def test_the_scheduler_closes_while_somebody_drains() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            leaving = await one.ask("a")
            departure = one.drains._departures["a"]
            await one.plugin.close()
            assert departure.task is not None
            assert departure.task.cancelled()
            assert await leaving == "the scheduler closes"
            assert not [
                task
                for task in asyncio.all_tasks()
                if task.get_name().startswith("fleet")
            ]
            del running

    run(main())


def test_a_scheduler_without_stealing() -> None:
    async def main() -> None:
        from distributed.scheduler import DEFAULT_EXTENSIONS

        extensions = {k: v for k, v in DEFAULT_EXTENSIONS.items() if k != "stealing"}
        options = {"scheduler": {"extensions": extensions}}
        async with side("a", "b", config=NO_QUEUE, **options) as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            waiting = [one.on("a", add, n) for n in range(5)]
            await one.eyes.until(lambda: len(one.scheduler.tasks) == 6)
            leaving = await one.ask("a")
            assert await one.client.gather(waiting) == [1, 2, 3, 4, 5]
            GATES.open("gate")
            assert await leaving == ""
            del running

    run(main())


def test_a_killed_worker_is_still_to_blame_when_nobody_asked_it_to_leave() -> None:
    """The plugin changes nothing for those who do not leave."""

    async def main() -> None:
        allowed = {"distributed.scheduler.allowed-failures": 0}
        async with side("a", "b", config=allowed) as one:
            running = one.on("a", wait_at, "gate")
            await begun(one, "gate")
            await one.scheduler.remove_worker(one.address("a"), stimulus_id="test")
            GATES.open("gate")
            with pytest.raises(KilledWorker):
                await running

    run(main())
