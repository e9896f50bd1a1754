"""What only those who leave hold is moved, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from distributed import wait
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

from dask_fleet.scheduler import TAKEN_BACK, moving
from dask_fleet.scheduler.moving import NOBODY, Takers
from dask_fleet.scheduler.survey import is_only_with
from tests.scheduler.support import GATES, Side, run, side, wait_at


class Traffic:
    """What workers were asked to fetch."""

    def __init__(self, one: Side, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, Any]] = []
        original: Callable[..., None] = one.scheduler.request_acquire_replicas

        def request(addr: str, keys: list[Any], **kwargs: Any) -> None:
            names = {ws.address: ws.name for ws in one.scheduler.workers.values()}
            self.asked += [(str(names[addr]), key) for key in keys]
            original(addr, keys, **kwargs)

        monkeypatch.setattr(one.scheduler, "request_acquire_replicas", request)

    @property
    def keys(self) -> list[Any]:
        return [key for _, key in self.asked]


class Actor:
    """Something that cannot be moved."""


def test_only_what_nobody_else_has_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            alone = await one.hold("a", nbytes=1000)
            shared = await one.hold("a", "b", nbytes=2000)
            elsewhere = await one.hold("c", nbytes=3000)
            traffic = Traffic(one, monkeypatch)
            assert await one.leave(["a"]) == {"a": ""}
            assert traffic.keys == [alone.key]
            await one.workers["a"].close(nanny=False)
            values = await one.client.gather([alone, shared, elsewhere])
            assert [len(value) for value in values] == [1000, 2000, 3000]

    run(main())


def test_what_two_of_them_share_is_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            shared = await one.hold("a", "b", nbytes=2000)
            traffic = Traffic(one, monkeypatch)
            assert await one.leave(["a", "b"]) == {"a": ""}
            assert traffic.asked == [("c", shared.key)]

    run(main())


def test_two_that_leave_at_the_same_time_do_not_rely_on_each_other() -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            shared = await one.hold("a", "b", nbytes=2000)
            assert await one.leave(["a"], ["b"]) == {"a": "", "b": ""}
            for name in "ab":
                await one.workers[name].close(nanny=False)
            assert len(await shared) == 2000

    run(main())


def test_the_one_with_most_room_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with side("a", "b", memory_limit=1000) as one:
            await one.add("c", memory_limit=5000)
            kept = [await one.hold("b", nbytes=100)]
            moved = [await one.hold("a", nbytes=400) for _ in range(2)]
            traffic = Traffic(one, monkeypatch)
            assert await one.leave(["a"]) == {"a": ""}
            assert traffic.asked == [("c", future.key) for future in moved]
            del kept

    run(main())


def test_promises_count_as_room_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            moved = [await one.hold("a", nbytes=1000) for _ in range(10)]
            traffic = Traffic(one, monkeypatch)
            assert await one.leave(["a"]) == {"a": ""}
            places = [name for name, _ in traffic.asked]
            assert (places.count("b"), places.count("c")) == (5, 5)
            assert not one.drains._mover._takers._promised
            del moved

    run(main())


def test_results_of_tasks_that_finish_last_are_moved_too() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            last = one.on("a", wait_at, "gate", b"x" * 1000)
            await one.eyes.until(lambda: GATES.begun.get("gate"))
            leaving = await one.ask("a")
            GATES.open("gate")
            assert await leaving == ""
            await one.workers["a"].close(nanny=False)
            assert len(await last) == 1000
            assert one.eyes.computed[last.key] == 1

    run(main())


def test_what_comes_in_after_all_is_moved_before_it_is_released() -> None:
    """A client may have begun to send before the worker was shut."""

    async def main() -> None:
        async with side("a", "b") as one:
            assert await one.leave(["a"]) == {"a": ""}
            assert one.state("a").status is Status.closing_gracefully
            # As if it had asked where to send it a moment earlier.
            one.workers["a"].update_data({"late": 7})
            one.scheduler.update_data(
                who_has={"late": [one.address("a")]}, nbytes={"late": 28}, client="x"
            )
            assert await one.leave(["a"]) == {"a": ""}
            ts = one.scheduler.tasks["late"]
            assert one.state("b") in (ts.who_has or ())

    run(main())


def test_scattering_passes_over_those_who_leave() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            await one.leave(["a"])
            direct = await one.client.scatter(list(range(4)), direct=True)
            through = await one.client.scatter(list(range(4, 8)), direct=False)
            assert not one.state("a").has_what
            assert await one.client.gather(direct + through) == list(range(8))

    run(main())


# ------------------------------------------------------------------------------ refused


def test_nobody_else_is_there() -> None:
    async def main() -> None:
        async with side("a") as one:
            kept = await one.hold("a", nbytes=1000)
            assert await one.leave(["a"]) == {"a": NOBODY}
            assert one.state("a") in one.scheduler.running
            assert await one.client.submit(abs, -1, pure=False) == 1
            del kept

    run(main())


def test_all_others_are_paused() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.hold("a", nbytes=1000)
            one.workers["b"].status = Status.paused
            await one.eyes.until(lambda: one.state("b").status is Status.paused)
            assert await one.leave(["a"]) == {"a": NOBODY}
            assert await one.client.submit(abs, -1, pure=False) == 1
            del kept

    run(main())


def test_an_actor_cannot_be_moved() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            actor = await one.client.submit(Actor, actor=True, workers=["a"])
            assert await one.leave(["a"]) == {"a": "it holds an actor"}
            assert one.state("a") in one.scheduler.running
            del actor

    run(main())


def test_a_handle_of_an_actor_that_lives_elsewhere_is_no_obstacle() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            actor = one.client.submit(Actor, actor=True, workers=["b"])
            user = one.client.submit(uses, actor, workers=["a"], pure=False)
            await user
            assert await one.leave(["a"]) == {"a": ""}
            del actor

    run(main())


def uses(actor: Any) -> str:
    return type(actor).__name__


def test_it_has_become_too_much_since_it_was_chosen() -> None:
    async def main() -> None:
        async with side("a", "b", memory_limit=1000) as one:
            kept = [await one.hold(name, nbytes=400) for name in "ab"]
            why = await one.leave(["a"])
            assert why == {"a": "1 key(s) with 400 B have no room elsewhere"}
            assert one.state("a") in one.scheduler.running
            kept[1].release()
            await one.eyes.until(lambda: not one.state("b").has_what)
            assert await one.leave(["a"]) == {"a": ""}

    run(main())


def test_a_group_stays_as_a_whole() -> None:
    async def main() -> None:
        async with side("a0", "a1") as one:
            kept = await one.hold("a1", nbytes=1000)
            assert await one.leave(["a0", "a1"]) == {"a0": NOBODY}
            assert len(one.scheduler.running) == 2
            del kept

    run(main())


# --------------------------------------------------------------- what else may happen


async def slowly(one: Side, name: str) -> asyncio.Event:
    """Let a worker give its results only from the moment that an event is set."""
    word = asyncio.Event()
    original = one.workers[name].handlers["get_data"]

    async def get_data(*args: Any, **kwargs: Any) -> Any:
        await word.wait()
        return await original(*args, **kwargs)

    async def with_comm(comm: Any, **kwargs: Any) -> Any:
        return await get_data(comm, **kwargs)

    one.workers[name].handlers["get_data"] = with_comm
    return word


def test_taken_back_while_results_are_on_their_way() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.hold("a", nbytes=1000)
            word = await slowly(one, "a")
            leaving = await one.ask("a")
            takers = one.drains._mover._takers
            await one.eyes.until(lambda: takers._promised)
            assert one.drains.recall([["a"]]) == ["a"]
            assert one.state("a") in one.scheduler.running
            assert await leaving == TAKEN_BACK
            assert not takers._promised
            again = one.client.submit(abs, -1, pure=False, workers=["a"])
            await wait(again)
            word.set()
            assert await again == 1
            del kept

    run(main())


def test_it_dies_while_results_are_on_their_way() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.hold("a", nbytes=1000)
            await slowly(one, "a")
            leaving = await one.ask("a")
            await one.eyes.until(lambda: one.drains._mover._takers._promised)
            await one.scheduler.remove_worker(one.address("a"), stimulus_id="test")
            assert await leaving == ""
            del kept

    run(main())


def test_who_was_to_take_them_dies_and_another_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            kept = await one.hold("c", nbytes=10)
            moved = await one.hold("a", nbytes=1000)
            word = await slowly(one, "a")
            traffic = Traffic(one, monkeypatch)
            leaving = await one.ask("a")
            await one.eyes.until(lambda: traffic.asked == [("b", moved.key)])
            await one.workers["b"].close(nanny=False, executor_wait=False)
            await one.eyes.until(lambda: len(traffic.asked) == 2)
            assert traffic.asked[1] == ("c", moved.key)
            word.set()
            assert await leaving == ""
            assert len(await moved) == 1000
            del kept

    run(main())


def test_slow_results_are_not_asked_for_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            moved = await one.hold("a", nbytes=1000)
            word = await slowly(one, "a")
            traffic = Traffic(one, monkeypatch)
            looks = 0
            original = one.drains._mover._look

            async def look(*args: Any) -> Any:
                nonlocal looks
                looks += 1
                return await original(*args)

            monkeypatch.setattr(one.drains._mover, "_look", look)
            leaving = await one.ask("a")
            await one.eyes.until(lambda: looks > 5)
            assert traffic.keys == [moved.key]
            word.set()
            assert await leaving == ""

    run(main())


def test_what_does_not_come_for_long_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moving, "ASK_AGAIN", 0.0)

    async def main() -> None:
        async with side("a", "b", "c") as one:
            moved = await one.hold("a", nbytes=1000)
            word = await slowly(one, "a")
            traffic = Traffic(one, monkeypatch)
            leaving = await one.ask("a")
            await one.eyes.until(lambda: len(traffic.asked) > 1)
            assert set(traffic.keys) == {moved.key}
            word.set()
            assert await leaving == ""

    run(main())


def test_released_while_on_their_way() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            moved = await one.hold("a", nbytes=1000)
            await slowly(one, "a")
            leaving = await one.ask("a")
            await one.eyes.until(lambda: one.drains._mover._takers._promised)
            moved.release()
            assert await leaving == ""

    run(main())


def test_the_memory_manager_may_run_meanwhile() -> None:
    """Its ReduceReplicas drops no copy that is needed."""

    async def main() -> None:
        config = {"distributed.scheduler.active-memory-manager.start": False}
        async with side("a", "b", "c", config=config) as one:
            kept = [await one.hold("a", nbytes=1000) for _ in range(30)]
            done = asyncio.Event()

            async def reduce() -> None:
                while not done.is_set():
                    one.scheduler.extensions["amm"].run_once()
                    await asyncio.sleep(0)

            reducing = asyncio.create_task(reduce())
            assert await one.leave(["a"], ["b"]) == {"a": "", "b": ""}
            done.set()
            await reducing
            for name in "ab":
                await one.workers[name].close(nanny=False)
            assert len(await one.client.gather(kept)) == 30

    run(main())


def test_the_schedulers_own_retiring_goes_together_with_it() -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            kept = [await one.hold(name, nbytes=1000) for name in "ab"]
            leaving = await one.ask("a")
            retired = await one.client.retire_workers([one.address("b")])
            assert list(retired) == [one.address("b")]
            assert await leaving == ""
            assert len(await one.client.gather(kept)) == 2

    run(main())


def test_who_has_been_told_to_stop_by_somebody_else_works_again_when_kept() -> None:
    """The scheduler's own retiring gave up, and left it told to stop."""

    async def main() -> None:
        async with side("a") as one:
            kept = await one.hold("a", nbytes=1000)
            running = one.on("a", wait_at, "gate")
            await one.eyes.until(lambda: GATES.begun.get("gate"))
            leaving = await one.ask("a")
            await one.scheduler.retire_workers([one.address("a")])
            said = one.drains._gate._shut[one.address("a")]
            await one.eyes.until(lambda: said.status is Status.closing_gracefully)
            GATES.open("gate")
            assert await leaving == NOBODY
            assert await one.client.submit(abs, -1, pure=False) == 1
            del kept, running

    run(main())


def test_thousands_of_results_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "STRIDE", 100)

    async def main() -> None:
        async with side("a", "b", "c") as one:
            kept = await one.client.scatter(
                {f"k{n}": n for n in range(1000)}, workers=[one.address("a")]
            )
            assert await one.leave(["a"]) == {"a": ""}
            await one.workers["a"].close(nanny=False)
            assert await one.client.gather(list(kept.values())) == list(range(1000))

    run(main())


def test_takers_find_nobody() -> None:
    async def main() -> None:
        async with side() as one:
            assert Takers(one.scheduler).pick(10, 0.6) is None
            await one.add("a")
            assert Takers(one.scheduler).pick(10, 0.6) is one.state("a")

    run(main())


def test_a_result_that_nobody_holds_is_nobodys_only_copy() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.hold("a", nbytes=1000)
            ts: TaskState = one.scheduler.tasks[kept.key]
            ws: WorkerState = one.state("a")
            assert not is_only_with(ts)
            one.drains._gate.shut([ws])
            assert is_only_with(ts)
            kept.release()
            await one.eyes.until(lambda: not ts.who_has)
            assert not is_only_with(ts)

    run(main())
