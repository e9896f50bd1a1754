"""What always holds, by name, on a simulated world under virtual time.

Each rule is one of the nine of the design. The world checks after every decision, too:
one bucket an instance, one direction a decision, one command at a time, and no second
command from the same snapshot.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dask_fleet.core import (
    AskRanking,
    Cause,
    Command,
    Drain,
    EndingKind,
    Release,
    Settings,
    Start,
    State,
)
from dask_fleet.testing.fates import HOPELESS, UNRULY, Fate, Habits
from dask_fleet.testing.simulated import World

seeds = st.integers(0, 2**16)
targets = st.integers(0, 12)
sizes = st.integers(1, 4)


def world(
    seed: int = 0, size: int = 1, habits: Habits = UNRULY, recallable: bool = False
) -> World:
    return World(
        habits,
        Settings(workers_per_instance=size),
        luck=Random(seed),
        recallable=recallable,
    )


def whole(workers: int, size: int) -> int:
    """The smallest number of whole instances that holds so many workers, in workers."""
    return -(-workers // size) * size


@given(seed=seeds, size=sizes, wanted=st.lists(targets, min_size=1, max_size=6))
def test_converges(seed: int, size: int, wanted: list[int]) -> None:
    """After the last scale(n) without further faults, exactly n are observed."""
    here = world(seed, size)
    for target in wanted:
        here.scale(target)
        here.run(here.luck.uniform(0, 3))
    here.settle()
    assert len(here.observed) == whole(wanted[-1], size)
    assert here.fleet.plan == here.observed


@given(
    seed=seeds,
    wanted=targets,
    fates=st.lists(st.sampled_from(list(Fate)), max_size=6),
)
def test_converges_after_failed_starts(
    seed: int, wanted: int, fates: list[Fate]
) -> None:
    """Starts that fail, vanish or come late are made up for, if somebody asks anew."""
    here = world(seed)
    here.fates.extend(fates)
    here.scale(wanted)
    here.settle()
    here.scale(wanted)
    here.settle(limit=7200)
    assert len(here.observed) == wanted


@given(seed=seeds, wanted=st.lists(targets, min_size=2, max_size=6))
def test_never_below(seed: int, wanted: list[int]) -> None:
    """No worker is closed that the target still needs."""
    here = world(seed)
    for target in wanted:
        here.scale(target)
        # One that was withdrawn before it came may still show up for a moment.
        before = len(here.observed & here.fleet.plan)
        end = here.now + here.luck.uniform(0, 8)
        while here.now < end:
            here.run(0.1)
            assert len(here.observed & here.fleet.plan) >= min(before, target)
            before = len(here.observed & here.fleet.plan)


@given(seed=seeds, size=sizes, first=targets, then=targets)
def test_one_road(seed: int, size: int, first: int, then: int) -> None:
    """By hand and by a policy, from one state to one target, the steps are the same."""
    manual, adaptive = world(seed, size), world(seed, size)
    for here in (manual, adaptive):
        here.scale(first)
        here.settle()
        here.commands.clear()
    manual.scale(then)
    adaptive.adapt(0, 100, calm=0.0)
    adaptive.want(then)
    manual.settle()
    adaptive.settle()
    assert adaptive.commands == manual.commands


@given(seed=seeds, size=sizes, wanted=st.lists(targets, min_size=2, max_size=5))
def test_nothing_twice(seed: int, size: int, wanted: list[int]) -> None:
    """Whoever has arrived is drained before the resource manager drops it."""
    here = world(seed, size, Habits(refuse_retirement=0.3, scattered=True))
    drained: set[str] = set()
    for target in wanted:
        here.scale(target)
        here.run(here.luck.uniform(2, 6))
    for _, command in here.commands:
        if isinstance(command, Drain):
            drained.update(command.tokens)
    arrived = {
        worker
        for reason in here.reasons
        if reason.cause is Cause.ARRIVED
        for worker in reason.workers
    }
    for _, command in here.commands:
        if isinstance(command, Release):
            for token in command.tokens:
                machine = here.machines[token]
                if arrived.issuperset(machine.workers):
                    assert token in drained


@given(
    seed=seeds,
    target=st.integers(1, 8),
    victims=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    told=st.booleans(),
    adaptive=st.booleans(),
)
def test_replaced(
    seed: int, target: int, victims: list[int], told: bool, adaptive: bool
) -> None:
    """A worker that dies is replaced, whatever the mode, whether told of or not."""
    here = world(seed)
    if adaptive:
        here.adapt(0, 100, calm=3.0)
        here.want(target)
    else:
        here.scale(target)
    here.settle()
    here.run(20.0)  # past infancy: what dies now is no failed start
    for victim in victims:
        running = sorted(here.running)
        here.kill(running[victim % len(running)], told=told)
        here.run(20.0)
        here.settle()
        assert len(here.observed) == target


@pytest.mark.parametrize("fate", sorted(HOPELESS - {Fate.QUOTA}))
@pytest.mark.parametrize("target", [1, 2, 8])
def test_bounded_starts(fate: Fate, target: int) -> None:
    """If every start fails, few are made, and the user is told why."""
    here = World(Habits(fates={fate: 1.0}))
    here.scale(target)
    here.run(3600.0)
    first_minute = [at for at, _ in here.starts if at < 60.0]
    assert len(first_minute) <= target + 8
    assert len(here.starts) <= max(40, target + 16)
    assert Cause.BREAKER in {reason.cause for reason in here.reasons}
    assert here.observed == set()


def test_bounded_starts_of_two() -> None:
    """Two workers that die at birth: at most ten starts a minute, forty an hour."""
    for fate in (Fate.DIES_BEFORE, Fate.DIES_AT_BIRTH):
        here = World(Habits(fates={fate: 1.0}))
        here.adapt(2, 4, calm=3.0)
        for _ in range(3600):
            here.want(2)
            here.run(1.0)
        assert len([at for at, _ in here.starts if at < 60.0]) <= 10
        assert len(here.starts) <= 40


@given(seed=seeds, size=sizes, target=targets, after=st.floats(0, 12))
def test_nothing_left(seed: int, size: int, target: int, after: float) -> None:
    """After close, whenever it comes, the resource manager runs nothing of ours."""
    here = world(seed, size)
    here.scale(target)
    here.run(after)
    here.close()
    here.settle()
    assert here.running == set()
    assert here.fleet.instances == {}


@given(seed=seeds, target=st.integers(1, 8), after=st.floats(0, 12))
def test_bounded_close(seed: int, target: int, after: float) -> None:
    """Closing asks nobody to finish: everything known is released at once."""
    here = world(seed)
    here.scale(target)
    here.run(after)
    here.commands.clear()
    known = {
        t for t, one in here.fleet.instances.items() if one.state is not State.PLANNED
    }
    going = {t for t in known if here.fleet.instances[t].state is State.LEAVING}
    here.close()
    told = [c for at, c in here.commands if at == here.now]
    released = {t for c in told if isinstance(c, Release) for t in c.tokens}
    assert not any(isinstance(c, (Drain, AskRanking, Start)) for c in told)
    assert released >= known - going


def test_same_again_for_a_full_life() -> None:
    """The whole list of commands of a plain life: nothing is said twice."""
    here = World()
    here.scale(2)
    here.run(10.0)
    here.scale(1)
    here.run(10.0)
    assert [type(command) for _, command in here.commands] == [
        Start,
        AskRanking,
        Drain,
        Release,
    ]


def test_bursts_with_pauses_shorter_than_the_calm_window_close_nobody() -> None:
    """Calm is measured in seconds, however often the policy is asked."""
    for tick in (0.05, 0.1, 1.0):
        here = World()
        here.adapt(0, 8, calm=3.0)
        for _ in range(6):
            _hold(here, 4, seconds=2.0, tick=tick)
            _hold(here, 0, seconds=2.5, tick=tick)
        assert not _commands(here, Drain)
        assert len(here.starts) == 4


def test_a_pause_that_was_misjudged_is_waited_for_the_next_time() -> None:
    """Workers missed soon after they had left stay for longer in the next pause."""
    here = World()
    here.adapt(0, 8, calm=3.0)
    for _ in range(4):
        _hold(here, 4, seconds=2.0, tick=0.5)
        _hold(here, 0, seconds=6.0, tick=0.5)
    assert len(here.starts) == 8  # twice four, and none after the lesson
    _hold(here, 0, seconds=20.0, tick=0.5)
    assert here.observed == set()


def test_a_new_policy_drops_nobody_at_once() -> None:
    """Its calm window is seeded with the present size."""
    here = World()
    here.scale(5)
    here.run(5.0)
    here.adapt(0, 8, calm=3.0)
    here.want(0)
    here.run(2.9)
    assert len(here.observed) == 5
    here.run(1.0)
    assert here.observed == set()


def test_no_second_name() -> None:
    """Replacement after replacement, no name comes back (the world checks it)."""
    here = World()
    here.scale(3)
    for _ in range(5):
        here.run(20.0)
        here.kill(sorted(here.running)[0])
    here.settle()
    assert len({token for _, token in here.starts}) == len(here.starts) == 8


def _hold(here: World, wanted: int, seconds: float, tick: float) -> None:
    """Let a policy want a number for a while."""
    for _ in range(round(seconds / tick)):
        here.want(wanted)
        here.run(tick)


def _commands(here: World, kind: type[Command]) -> list[Command]:
    return [command for _, command in here.commands if isinstance(command, kind)]


class Anything(RuleBasedStateMachine):
    """Everything at once, in any order: scale, adapt, faults, time."""

    @initialize(seed=seeds, size=sizes, recallable=st.booleans())
    def begin(self, seed: int, size: int, recallable: bool) -> None:
        self.size = size
        self.world = world(seed, size, recallable=recallable)
        self.world.look()
        self.closed = False

    @rule(workers=targets)
    def scale(self, workers: int) -> None:
        if not self.closed:
            self.world.scale(workers)

    @rule(minimum=st.integers(0, 3), more=st.integers(0, 9), calm=st.floats(0, 5))
    def adapt(self, minimum: int, more: int, calm: float) -> None:
        if not self.closed:
            self.world.adapt(minimum, minimum + more, calm)

    @rule(workers=targets)
    def want(self, workers: int) -> None:
        if not self.closed:
            self.world.want(workers)

    @rule(fates=st.lists(st.sampled_from(list(Fate)), min_size=1, max_size=3))
    def next_fates(self, fates: list[Fate]) -> None:
        self.world.fates.extend(fates)

    @rule(
        which=st.integers(0, 20),
        told=st.booleans(),
        kind=st.sampled_from([EndingKind.CRASHED, EndingKind.EXPIRED]),
    )
    def kill(self, which: int, told: bool, kind: EndingKind) -> None:
        running = sorted(self.world.running)
        if running:
            self.world.kill(running[which % len(running)], kind, told=told)

    @rule(which=st.integers(0, 20), seconds=st.floats(0.1, 40))
    def hide(self, which: int, seconds: float) -> None:
        seen = sorted(self.world.observed)
        if seen:
            self.world.hide(seen[which % len(seen)], seconds)

    @rule(seconds=st.floats(0.1, 30))
    def silence(self, seconds: float) -> None:
        self.world.silence(seconds)

    @rule()
    def stranger(self) -> None:
        self.world.intrude("stranger")

    @rule(seconds=st.floats(0, 30))
    def run_on(self, seconds: float) -> None:
        self.world.run(seconds)

    @rule()
    def close(self) -> None:
        self.closed = True
        self.world.close()

    def teardown(self) -> None:
        """Without further faults the world comes to the target, or says why not."""
        here = self.world
        here.fates.clear()
        here.run(60.0)  # whoever was hidden or silent is back
        if self.closed:
            here.settle()
            assert here.running == set()
            return
        here.scale(3)
        here.settle(limit=7200)
        here.scale(3)
        here.settle(limit=7200)
        ours = here.observed - {"stranger"}
        assert len(ours) == whole(3, self.size), json.dumps(sorted(here.observed))


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=150, stateful_step_count=25)
