"""Scaling down from `scale` and `adapt` to the worker, with workers in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import dask.config
import pytest
from distributed import Client, secede
from distributed.core import Status

from dask_fleet.core import Cause, Drain
from dask_fleet.testing.fake_manager import FakeCluster
from tests.cluster.support import LIMIT, events_of, fake, run, until
from tests.scheduler.support import GATES, Eyes, wait_at

QUICK = {"fleet.deadlines.ask-again": "20ms"}


class Stage:
    """A cluster, a client, and short cuts."""

    def __init__(self, cluster: FakeCluster, client: Client) -> None:
        self.cluster = cluster
        self.client = client
        self.eyes = Eyes()
        assert cluster.scheduler is not None
        self.scheduler = cluster.scheduler
        self.scheduler.add_plugin(self.eyes)
        #: Wanted until the end.
        self.kept: list[Any] = []

    def address(self, name: str) -> str:
        return str(self.scheduler.aliases[name])

    def status(self, name: str) -> Status:
        return self.scheduler.workers[self.address(name)].status

    async def busy(self, *names: str) -> dict[str, Any]:
        """Tasks that run on these workers, each until its gate is opened."""
        futures = {
            name: self.client.submit(
                wait_at,
                f"gate-{name}",
                name,
                workers=[self.address(name)],
                allow_other_workers=True,
                pure=False,
            )
            for name in names
        }
        self.kept.extend(futures.values())
        await self.eyes.until(lambda: all(GATES.begun.get(f"gate-{n}") for n in names))
        return futures

    async def hold(self, *names: str, nbytes: int = 1000) -> list[Any]:
        """A value on each of these workers."""
        return [
            await self.client.scatter(
                b"x" * nbytes, workers=[self.address(name)], hash=False
            )
            for name in names
        ]

    async def scale(self, n: int, **how: Any) -> None:
        accepted = self.cluster.scale(n, **how)
        assert accepted is not None
        await accepted

    async def size(self, count: int) -> None:
        """Wait until so many workers are there and nobody is on the way."""
        await self.cluster.wait_for_workers(count, timeout=LIMIT, exactly=True)

    @property
    def names(self) -> set[str]:
        return {str(ws.name) for ws in self.scheduler.workers.values()}


@contextlib.asynccontextmanager
async def stage(
    n: int, kind: type[FakeCluster] = FakeCluster, **config: Any
) -> AsyncIterator[Stage]:
    with dask.config.set({**QUICK, **config}):
        try:
            async with (
                fake(kind, n_workers=n) as cluster,
                Client(cluster, asynchronous=True) as client,
            ):
                yield Stage(cluster, client)
        finally:
            GATES.open_all()


def drained(cluster: FakeCluster) -> list[tuple[str, ...]]:
    """Who was asked to finish and leave, by decision."""
    return [event.workers for event in events_of(cluster, Cause.DRAINING)]


# ------------------------------------------------------------------------------- drain


def test_busy_workers_finish_first() -> None:
    async def main() -> None:
        async with stage(3) as one:
            tasks = await one.busy("0", "1", "2")
            await one.scale(1)
            await until(one.cluster, lambda: len(drained(one.cluster)) == 1)
            assert len(drained(one.cluster)[0]) == 2
            assert one.names == {"0", "1", "2"}
            for name in tasks:
                GATES.open(f"gate-{name}")
            await one.size(1)
            assert await one.client.gather(list(tasks.values())) == ["0", "1", "2"]
            assert set(one.eyes.computed.values()) == {1}

    run(main())


def test_scaled_up_again_those_that_drain_are_back_at_work_at_once() -> None:
    async def main() -> None:
        async with stage(4) as one:
            await one.busy("0", "1", "2", "3")
            await one.scale(2)
            await until(one.cluster, lambda: len(drained(one.cluster)) == 1)
            leaving = drained(one.cluster)[0]
            await one.eyes.until(
                lambda: all(one.status(n) is not Status.running for n in leaving)
            )
            await one.scale(6)
            await one.size(6)
            assert one.names == {"0", "1", "2", "3", "4", "5"}
            assert all(one.status(n) is Status.running for n in leaving)
            recalled = [set(e.workers) for e in events_of(one.cluster, Cause.RECALLED)]
            assert recalled == [set(leaving)]
            assert not events_of(one.cluster, Cause.HELD)
            started = [c for c in one.cluster.calls if c[0] == "scale_up"]
            assert started[1:] == [("scale_up", ("4", "5"))]
            GATES.open_all()

    run(main())


@pytest.mark.parametrize("by", ["argument", "configuration"])
def test_the_time_to_finish_is_limited(by: str) -> None:
    limit: Any = {"drain_timeout": "50ms"} if by == "argument" else {}
    config: Any = {} if by == "argument" else {"fleet.drain-timeout": "50ms"}

    async def main() -> None:
        async with stage(2, **config) as one:
            tasks = await one.busy("0", "1")
            await one.scale(1, **limit)
            await one.size(1)
            (left,) = one.names
            GATES.open(f"gate-{left}")
            gone = ({"0", "1"} - {left}).pop()
            await one.eyes.until(lambda: GATES.begun[f"gate-{gone}"] == 2)
            GATES.open(f"gate-{gone}")
            assert await one.client.gather(list(tasks.values())) == ["0", "1"]
            assert not any(ts.suspicious for ts in one.scheduler.tasks.values())

    run(main())


def test_the_time_to_finish_may_be_limited_later() -> None:
    async def main() -> None:
        async with stage(2) as one:
            await one.busy("0", "1")
            await one.scale(1)
            await until(one.cluster, lambda: bool(drained(one.cluster)))
            await one.scale(1, drain_timeout=0)
            await one.size(1)

    run(main())


def test_closing_does_not_wait_for_those_that_drain() -> None:
    async def main() -> None:
        async with stage(2) as one:
            await one.busy("0", "1")
            await one.scale(1)
            await until(one.cluster, lambda: bool(drained(one.cluster)))
            await one.cluster.close()
            assert not [
                task for task in asyncio.all_tasks() if "departure" in task.get_name()
            ]

    run(main())


# -------------------------------------------------------------------------------- held


def test_zero_keeps_who_holds_what_somebody_wants_and_goes_on_by_itself() -> None:
    async def main() -> None:
        async with stage(3) as one:
            kept = await one.hold("0", "2")
            await one.scale(0)
            await one.size(1)
            held = "1 key(s)" if len(one.names) > 1 else "2 key(s) with 1.95 kiB"
            await until(one.cluster, lambda: held in one.cluster.explain())
            (name,) = one.names
            words = (
                f"held: 1 worker(s) above the target stay: {held} on worker {name} "
                "have no room elsewhere"
            )
            assert words in one.cluster.explain()
            assert words in repr(one.cluster)
            assert words in one.cluster.state.last
            assert any(words in event.sentence for event in one.cluster.events)
            assert [len(value) for value in await one.client.gather(kept)] == [1000] * 2
            for future in kept:
                future.release()
            await one.size(0)
            assert "held" not in repr(one.cluster)

    run(main())


def test_an_actor_keeps_its_worker() -> None:
    async def main() -> None:
        async with stage(2) as one:
            actor = await one.client.submit(Counter, actor=True)
            await one.scale(0)
            await until(one.cluster, lambda: "actor" in one.cluster.explain())
            await one.size(1)
            assert await actor.increment() == 1
            del actor
            await one.size(0)

    run(main())


class Counter:
    """Counts."""

    n = 0

    def increment(self) -> int:
        self.n += 1
        return self.n


def test_a_variable_and_a_published_dataset_survive() -> None:
    async def main() -> None:
        from distributed import Variable

        async with stage(3) as one:
            (value, dataset) = await one.hold("2", "1")
            variable = Variable("v", client=one.client)
            await variable.set(value)
            await one.client.publish_dataset(d=dataset)
            del value, dataset
            await one.scale(0)
            await one.size(1)
            assert len(await (await variable.get())) == 1000
            assert len(await (await one.client.get_dataset("d"))) == 1000

    run(main())


# ------------------------------------------------------------------------------- force


def test_force_lets_go_at_once_and_says_what_was_lost() -> None:
    async def main() -> None:
        async with stage(2) as one:
            kept = await one.hold("0", "1")
            task = one.client.submit(wait_at, "gate", 7)
            await one.eyes.until(lambda: GATES.begun.get("gate"))
            await one.scale(0, force=True)
            await one.size(0)
            (event,) = events_of(one.cluster, Cause.DROPPED)
            assert sorted(event.workers) == ["0", "1"]
            assert event.sentence == (
                "let go of 2 worker(s) by force; lost: 2 key(s) with 1.95 kiB that "
                "only they held, 1 running task(s)"
            )
            assert (
                kept[0].status == "cancelled" or kept[0].key not in one.scheduler.tasks
            )
            await one.scale(1)
            GATES.open("gate")
            assert await task == 7
            assert not any(ts.suspicious for ts in one.scheduler.tasks.values())

    run(main())


def test_force_ends_a_drain_that_takes_too_long() -> None:
    async def main() -> None:
        async with stage(2) as one:
            await one.busy("0", "1")
            await one.scale(1)
            await until(one.cluster, lambda: bool(drained(one.cluster)))
            (leaving,) = drained(one.cluster)[0]
            await one.scale(1, force=True)
            await one.size(1)
            (event,) = events_of(one.cluster, Cause.DROPPED)
            assert event.workers == (leaving,)

    run(main())


def test_force_is_for_one_call_only() -> None:
    async def main() -> None:
        async with stage(3) as one:
            await one.scale(2, force=True)
            await one.size(2)
            kept = await one.hold(*one.names)
            await one.scale(0)
            await one.size(1)
            assert len(await one.client.gather(kept)) == 2
            assert len(events_of(one.cluster, Cause.DROPPED)) == 1

    run(main())


# ---------------------------------------------------------------- by hand and by adapt


def drive(gate: str) -> None:
    secede()
    wait_at(gate)


async def same_state(one: Stage) -> list[Any]:
    """Uneven data, some busy, some idle."""
    kept = [
        *await one.hold("1", nbytes=5000),
        *await one.hold("2", nbytes=100),
        *await one.hold("5", nbytes=70),
        *await one.hold("6", nbytes=3000),
    ]
    tasks = await one.busy("0", "6", "7")
    return [*kept, *tasks.values()]


def commands_of(one: Stage) -> list[Any]:
    """Record each drain that is commanded."""
    seen: list[Any] = []
    reconciler = one.cluster._control._reconciler
    assert reconciler is not None
    original = reconciler._perform

    def perform(command: Any) -> None:
        if isinstance(command, Drain):
            seen.append(command)
        original(command)

    reconciler._perform = perform  # type: ignore[method-assign]
    return seen


def by_hand_and_by_adapt(target: int) -> tuple[list[Any], list[Any]]:
    async def main(adaptive: bool) -> list[Any]:
        async with stage(8) as one:
            kept = await same_state(one)
            commands = commands_of(one)
            if adaptive:
                one.cluster.adapt(
                    minimum=0,
                    maximum=8,
                    interval="20ms",
                    wait_count=1,
                    target=lambda: target,
                )
            else:
                await one.scale(target)
            await until(
                one.cluster,
                lambda: sum(len(c.workers) for c in commands) == 8 - target,
            )
            for name in "067":
                GATES.open(f"gate-{name}")
            await one.size(target)
            del kept
            return commands

    return run(main(False)), run(main(True))


@pytest.mark.parametrize("target", [1, 3, 4, 7])
def test_the_same_state_and_target_give_the_same_commands(target: int) -> None:
    by_hand, by_adapt = by_hand_and_by_adapt(target)
    assert by_hand == by_adapt
    order = [name for command in by_hand for name in command.workers]
    assert order == ["3", "4", "5", "2", "1", "0", "7"][: 8 - target]


def test_adaptive_scaling_never_sends_a_driver_away() -> None:
    async def main() -> None:
        async with stage(2) as one:
            driver = one.client.submit(drive, "gate", workers=[one.address("0")])
            await one.eyes.until(
                lambda: one.scheduler.workers[one.address("0")].long_running
            )
            one.cluster.adapt(
                minimum=0, maximum=2, interval="20ms", wait_count=1, target=lambda: 0
            )
            await until(one.cluster, lambda: "may wait" in one.cluster.explain())
            await one.size(1)
            assert one.names == {"0"}
            GATES.open("gate")
            await driver
            driver.release()
            await one.size(0)

    run(main())


class Pairs(FakeCluster):
    """Two workers at a time."""

    workers_per_instance = 2


def test_pairs_leave_as_pairs() -> None:
    async def main() -> None:
        async with stage(6, Pairs) as one:
            kept = await one.hold("0-1", "1-0", "1-1", nbytes=1000)
            await one.busy("2-0")
            await one.scale(3)
            await one.size(4)
            assert one.names == {"1-0", "1-1", "2-0", "2-1"}
            assert len(await one.client.gather(kept)) == 3

    run(main())
