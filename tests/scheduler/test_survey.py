"""What is read from a real scheduler, and the answer that follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Any

import pytest
from distributed import Scheduler, SchedulerPlugin
from distributed.core import Status
from distributed.protocol import pickle
from distributed.scheduler import WorkerState

from dask_fleet.scheduler import copies, ranking, survey
from dask_fleet.scheduler.breather import Breather
from dask_fleet.scheduler.rank import Busyness
from dask_fleet.scheduler.survey import Picture, Room, find, groups_of, take
from tests.scheduler.support import FRACTION, GATES, Side, run, side, wait_at


def alone(*names: str) -> list[list[str]]:
    return [[name] for name in names]


async def picture_of(one: Side, instances: Iterable[list[str]]) -> Picture:
    groups, _ = groups_of(one.scheduler, list(instances), None, lambda ws: "")
    return await take(one.scheduler, groups, FRACTION)


class Actor:
    """Something that cannot be moved."""


def test_copies_elsewhere_cost_nothing() -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            kept = [
                await one.hold("a", nbytes=1000),
                await one.hold("a", "c", nbytes=5000),
                await one.hold("a", "b", nbytes=300),
            ]
            picture = await picture_of(one, alone("a", "b"))
            assert [c.own_bytes for c in picture.candidates] == [1000, 0]
            assert picture.shared == {(0, 1): 300}
            del kept

    run(main())


def test_copies_on_those_who_leave_already_do_not_count() -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            kept = await one.hold("a", "b", nbytes=1000)
            assert (await picture_of(one, alone("a"))).candidates[0].own_bytes == 0
            one.plugin._drains._gate.shut([one.state("b")])
            assert (await picture_of(one, alone("a"))).candidates[0].own_bytes == 1000
            del kept

    run(main())


def test_copies_on_a_paused_worker_count() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.hold("a", "b", nbytes=1000)
            one.workers["b"].status = Status.paused
            await one.eyes.until(lambda: one.state("b").status is Status.paused)
            assert (await picture_of(one, alone("a"))).candidates[0].own_bytes == 0
            del kept

    run(main())


def test_copies_within_an_instance_are_one() -> None:
    async def main() -> None:
        async with side("a0", "a1", "b") as one:
            kept = await one.hold("a0", "a1", nbytes=1000)
            picture = await picture_of(one, [["a0", "a1"]])
            assert picture.candidates[0].own_bytes == 1000
            assert picture.shared == {}
            del kept

    run(main())


def test_classes_of_busyness() -> None:
    async def main() -> None:
        async with side("idle", "busy", "driver", "actor") as one:
            busy = one.on("busy", wait_at, "busy")
            driver = one.on("driver", drive, "driver")
            actor = await one.client.submit(
                Actor, actor=True, workers=[one.address("actor")]
            )
            await one.eyes.until(lambda: GATES.begun.get("busy"))
            await one.eyes.until(lambda: one.state("driver").long_running)
            picture = await picture_of(one, alone("idle", "busy", "driver", "actor"))
            assert [c.busyness for c in picture.candidates] == [
                Busyness.IDLE,
                Busyness.BUSY,
                Busyness.PINNED,
                Busyness.PINNED,
            ]
            assert [c.tasks for c in picture.candidates] == [0, 1, 1, 0]
            del busy, driver, actor

    run(main())


def drive(gate: str) -> None:
    from distributed import secede

    secede()
    wait_at(gate)


def test_an_actor_never_leaves_and_a_driver_not_if_it_is_spared() -> None:
    async def main() -> None:
        async with side("driver", "actor", "third") as one:
            actor = await one.client.submit(
                Actor, actor=True, workers=[one.address("actor")]
            )
            driver = one.on("driver", drive, "driver")
            await one.eyes.until(lambda: one.state("driver").long_running)
            everybody = alone("driver", "actor", "third")
            by_hand = await one.rank(everybody, 3)
            assert by_hand["workers"] == ["third", "driver"]
            assert "1 cannot leave: it holds an actor" in by_hand["detail"]
            adaptive = await one.rank(everybody, 3, spare_pinned=True)
            assert adaptive["workers"] == ["third"]
            assert "1 cannot leave: it runs a task" in adaptive["detail"]
            force = await one.rank(everybody, 3, spare_actors=False)
            assert sorted(force["workers"]) == ["actor", "driver", "third"]
            assert not force["detail"]
            del actor, driver

    run(main())


def test_the_last_one_that_works_does_not_leave_its_driver_alone() -> None:
    """What a driver waits for would never be run."""

    async def main() -> None:
        async with side("a", "b") as one:
            driver = one.on("a", drive, "driver")
            await one.eyes.until(lambda: one.state("a").long_running)
            answer = await one.rank(alone("a", "b"), 2)
            assert answer["workers"] == ["b"]
            assert "runs on worker a" in answer["detail"]
            del driver

    run(main())


class Keeps(SchedulerPlugin):
    """Keeps a worker."""

    name = "keeps"

    def __init__(self, name: str) -> None:
        self.kept = name

    def valid_workers_downscaling(
        self, scheduler: Scheduler, workers: list[WorkerState]
    ) -> list[WorkerState]:
        return [ws for ws in workers if ws.name != self.kept]


def test_a_plugin_may_keep_workers() -> None:
    async def main() -> None:
        async with side("a0", "a1", "b", "c") as one:
            one.scheduler.add_plugin(Keeps("a1"))
            answer = await one.rank([["a0", "a1"], ["b"], ["c"]], 4)
            assert answer["workers"] == ["b", "c"]
            assert answer["detail"] == "2 cannot leave: a plugin keeps it"

    run(main())


def test_workers_that_leave_already_and_unknown_ones_are_no_candidates() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            one.plugin._drains._gate.shut([one.state("a")])
            answer = await one.rank(alone("a", "b", "nobody"), 3)
            assert answer["workers"] == ["b"]

    run(main())


def test_a_worker_that_has_not_come_leaves_with_its_instance() -> None:
    async def main() -> None:
        async with side("a0", "b") as one:
            answer = await one.rank([["a0", "a1"]], 2)
            assert answer["workers"] == ["a0", "a1"]

    run(main())


def first_letter(ws: WorkerState) -> Hashable:
    return str(ws.name)[0]


def test_a_worker_key_merges_instances() -> None:
    async def main() -> None:
        async with side("a0", "b0", "a1", "b1") as one:
            kept = await one.hold("b1", nbytes=1000)
            key = pickle.dumps(first_letter)
            everybody = alone("a0", "b0", "a1", "b1")
            two = await one.rank(everybody, 2, worker_key=key)
            assert two["workers"] == ["a0", "a1"]
            one_only = await one.rank(everybody, 1, worker_key=key)
            assert one_only["workers"] == []
            del kept

    run(main())


def test_an_instance_with_two_keys_ties_their_groups_together() -> None:
    async def main() -> None:
        async with side("a0", "b0", "a1", "b1", "c") as one:
            key = pickle.dumps(first_letter)
            instances = [["a0"], ["b0"], ["a1", "b1"], ["c"]]
            groups, _ = groups_of(one.scheduler, instances, first_letter, lambda ws: "")
            assert sorted(sorted(g.names) for g in groups) == [
                ["a0", "a1", "b0", "b1"],
                ["c"],
            ]
            assert (await one.rank(instances, 3, worker_key=key))["workers"] == ["c"]

    run(main())


def test_names_are_found_whatever_their_type() -> None:
    async def main() -> None:
        async with side("a") as one:
            await one.add(3)  # type: ignore[arg-type]  # as the command line does
            assert find(one.scheduler, "3") is one.state(3)  # type: ignore[arg-type]
            assert find(one.scheduler, "a") is one.state("a")
            assert find(one.scheduler, "03") is None
            assert find(one.scheduler, one.address("a")) is None

    run(main())


# ------------------------------------------------------------------------------ memory


def test_data_that_fits_nowhere_else_is_held() -> None:
    """Of three workers with room for 600 each, which hold 500 each, all are needed."""

    async def main() -> None:
        async with side("a", "b", "c", memory_limit=1000) as one:
            kept = [await one.hold(name, nbytes=500) for name in "abc"]
            answer = await one.rank(alone("a", "b", "c"), 2)
            assert answer["workers"] == []
            assert answer["detail"] == (
                "2 key(s) with 0.98 kiB on workers b, a have no room elsewhere; "
                "they leave once these are released or others have room"
            )
            kept.pop().release()
            await one.eyes.until(lambda: not one.state("c").has_what)
            assert (await one.rank(alone("a", "b", "c"), 2))["workers"] == ["c"]

    run(main())


def test_scale_to_zero_keeps_as_few_as_hold_the_data() -> None:
    async def main() -> None:
        async with side(*"abcde", memory_limit=1000) as one:
            kept = [await one.hold(name, nbytes=250) for name in "abcd"]
            answer = await one.rank(alone(*"abcde"), 5)
            assert len(answer["workers"]) == 3
            assert answer["workers"][0] == "e"
            del kept

    run(main())


def test_without_a_limit_one_worker_holds_everything() -> None:
    async def main() -> None:
        async with side(*"abc") as one:
            kept = [await one.hold(name, nbytes=10**6) for name in "abc"]
            answer = await one.rank(alone(*"abc"), 3)
            assert answer["workers"] == ["a", "b"]
            assert "1 key(s) with 0.95 MiB on worker c" in answer["detail"]
            del kept

    run(main())


def test_results_on_their_way_need_room_too() -> None:
    async def main() -> None:
        async with side(*"abc", memory_limit=1000) as one:
            kept = [await one.hold(name, nbytes=400) for name in "ab"]
            assert (await one.rank(alone("a"), 1))["workers"] == ["a"]
            # The results of "b" go to "c" already, and both do not fit there.
            one.plugin._drains._gate.shut([one.state("b")])
            assert (await one.rank(alone("a"), 1))["workers"] == []
            del kept

    run(main())


def test_a_worker_without_results_leaves_however_full_the_others_are() -> None:
    async def main() -> None:
        async with side("a", "b", memory_limit=1000) as one:
            kept = await one.hold("a", nbytes=900)
            assert (await one.rank(alone("a", "b"), 1))["workers"] == ["b"]
            del kept

    run(main())


def test_paused_workers_take_nothing_and_may_leave() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.hold("a", nbytes=100)
            one.workers["b"].status = Status.paused
            await one.eyes.until(lambda: one.state("b").status is Status.paused)
            assert (await one.rank(alone("a"), 1))["workers"] == []
            assert (await one.rank(alone("a", "b"), 1))["workers"] == ["b"]
            del kept

    run(main())


def test_room_adds_up() -> None:
    assert (Room(10.0) + Room(5.0, 1) - Room(2.0, 1)) == Room(13.0)
    assert Room(13.0).fits(13)
    assert not Room(13.0).fits(14)
    assert Room(-1.0).fits(0)


def test_the_loop_goes_on_while_the_picture_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However much there is to read, others have their turns."""

    class Hasty(Breather):
        def __init__(self) -> None:
            super().__init__(0.0)

    monkeypatch.setattr(survey, "Breather", Hasty)
    monkeypatch.setattr(copies, "STRIDE", 10)

    async def main() -> None:
        async with side("a", "b") as one:
            kept = await one.client.scatter(
                {f"k{n}": n for n in range(100)}, broadcast=True
            )
            await one.add("c")
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(others())
            await picture_of(one, alone("a"))
            task.cancel()
            assert turns >= 10
            del kept

    run(main())


def test_the_question_is_plain_data() -> None:
    async def main() -> None:
        async with side("a", "b") as one:
            answer: dict[str, Any] = await one.scheduler.handlers["fleet_rank"](
                instances=[["a"]], surplus=1, fraction=FRACTION
            )
            assert answer == {"workers": ["a"], "detail": ""}

    run(main())


def test_a_long_answer_to_the_same_question_holds_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with side("a") as one:
            kept = await one.hold("a", nbytes=100)
            monkeypatch.setattr(ranking, "SHARE", 1e-9)
            held = await one.rank(alone("a"), 1)
            assert held["workers"] == []
            kept.release()
            await one.eyes.until(lambda: not one.state("a").has_what)
            assert await one.rank(alone("a"), 1) == held
            await one.add("b")
            assert (await one.rank(alone("a", "b"), 1))["workers"] == ["a"]
            # Who could leave, could leave: that is never remembered.
            assert (await one.rank(alone("a"), 1))["workers"] == ["a"]

    run(main())


def test_what_everybody_has_costs_nothing_unless_everybody_leaves() -> None:
    async def main() -> None:
        async with side("a", "b", "c") as one:
            kept = await one.client.scatter(b"x" * 1000, broadcast=True)
            some = await picture_of(one, alone("a", "b"))
            assert [c.own_bytes for c in some.candidates] == [0, 0]
            assert some.shared == {}
            everybody = await picture_of(one, alone("a", "b", "c"))
            assert [c.own_bytes for c in everybody.candidates] == [0, 0, 0]
            assert everybody.shared == {(0, 1, 2): 1000}
            together = await picture_of(one, [["a", "b", "c"]])
            assert [c.own_bytes for c in together.candidates] == [1000]
            del kept

    run(main())
