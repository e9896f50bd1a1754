"""A resource manager and a scheduler that are made up, under virtual time.

A :class:`World` owns a :class:`~dask_fleet.core.Fleet`, a clock that jumps, and a list
of things that will happen. It performs what the core decides, as badly as it is told
to, and checks after each decision that nothing happened that must not happen. There
is no event loop, no process and no waiting: an hour takes milliseconds.

    >>> world = World()
    >>> world.scale(2)
    >>> world.run(10.0)
    >>> sorted(world.observed)
    ['0', '1']
    >>> world.fates.append(Fate.QUOTA)
    >>> world.scale(3)
    >>> world.run(1.0)
    >>> print(world.reasons[-1])  # doctest: +ELLIPSIS
    pause of 1 s after 1 failed round(s) of starts; last: refused by quota: ...
    >>> world.run(10.0)
    >>> len(world.observed)
    3

What becomes of the next starts is said one by one, in ``fates``, or by the odds in
:class:`Habits`; then give a generator of random numbers, so that it can be repeated.
Everything else that may go wrong is a method: ``kill``, ``hide``, ``silence`` …
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from dask_fleet.core import (
    Cause,
    Command,
    Decision,
    Ended,
    Ending,
    EndingKind,
    Fact,
    Fleet,
    Limits,
    Reason,
    Settings,
    Snapshot,
    Start,
    decide,
)
from dask_fleet.testing.agenda import Agenda
from dask_fleet.testing.checks import Checks
from dask_fleet.testing.fates import UNRULY, Fate, Habits, Span
from dask_fleet.testing.machines import Machine, Scheduler
from dask_fleet.testing.performing import Performing

__all__ = ["UNRULY", "Fate", "Habits", "Machine", "World"]

#: From its arrival to the end of a worker that dies at birth, in seconds.
INSTANT = 0.1

#: Decisions without any time between them, before it counts as going round in circles.
MOST_AT_ONCE = 500


class World:
    """A fleet and the world it lives in.

    Parameters
    ----------
    habits
        How the world behaves when it is not told otherwise.
    settings, limits
        Of the fleet.
    luck
        Where chance comes from; by default always the same.
    recallable
        Whether the scheduler can take a drain back.
    watch
        Told of each decision with the snapshot it was made from, before it is
        committed.

    Attributes
    ----------
    fleet
        The books.
    fates
        What becomes of the next starts, one by one.
    machines
        Everything the resource manager was ever asked for, by token.
    commands
        Every command with the time when it was given.
    reasons
        Everything that would be told to the user, in order.
    """

    def __init__(
        self,
        habits: Habits | None = None,
        settings: Settings | None = None,
        limits: Limits | None = None,
        *,
        luck: Random | None = None,
        recallable: bool = False,
        watch: Callable[[Snapshot, Decision], None] | None = None,
    ) -> None:
        self.habits = habits or Habits()
        self.fleet = Fleet(settings, limits, recallable=recallable)
        self.luck = luck or Random(0)
        self.agenda = Agenda()
        self.scheduler = Scheduler()
        self.machines: dict[str, Machine] = {}
        self.fates: deque[Fate] = deque()
        self.commands: list[tuple[float, Command]] = []
        self.reasons: list[Reason] = []
        self.decision: Decision | None = None
        self._own_limits = self.fleet.limits
        self._checks = Checks()
        self._performing = Performing(self)
        self._watch = watch
        self._at_once = 0

    # -- what is seen --------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.agenda.now

    @property
    def observed(self) -> set[str]:
        """Names of the workers that the scheduler sees."""
        return set(self.scheduler.seen)

    @property
    def running(self) -> set[str]:
        """Tokens of what the resource manager runs."""
        return {one.token for one in self.machines.values() if one.runs}

    @property
    def starts(self) -> list[tuple[float, str]]:
        """Every instance that was asked for, and when."""
        return [
            (at, token)
            for at, command in self.commands
            if isinstance(command, Start)
            for token in command.tokens
        ]

    # -- what the user does --------------------------------------------------------

    def scale(self, workers: int) -> None:
        """Do what a call of ``scale`` does."""
        self.fleet.forgive()
        self.fleet.set_limits(self._own_limits, now=self.now)
        self.fleet.set_target(workers, now=self.now)
        self.look()

    def adapt(self, minimum: int, maximum: float, calm: float) -> None:
        """Do what a call of ``adapt`` does."""
        own = self._own_limits
        self.fleet.forgive()
        self.fleet.set_limits(
            Limits(
                minimum=minimum,
                maximum=maximum,
                quota=own.quota,
                growth=own.growth,
                shrink_budget=own.shrink_budget,
                calm=calm,
            ),
            now=self.now,
        )
        self.want(self.fleet.target.workers)

    def want(self, workers: int) -> None:
        """Do what an adaptive policy does that gives this number."""
        self.fleet.set_target(workers, now=self.now, by=Cause.ADAPTED)
        self.look()

    def close(self) -> None:
        """Let everything go."""
        self.fleet.closing = True
        self.look()

    # -- what goes wrong -----------------------------------------------------------

    def kill(
        self,
        token: str,
        kind: EndingKind = EndingKind.CRASHED,
        *,
        told: bool | None = None,
    ) -> None:
        """End an instance, whoever asked for it.

        Parameters
        ----------
        token
            Which.
        kind
            The class of the ending.
        told
            Whether the resource manager tells; by default as its habits say.
        """
        one = self.machines[token]
        if not one.runs:
            return
        one.runs = False
        self.scheduler.forget(one.workers)
        if self.habits.tells_endings if told is None else told:
            ending = Ending(kind, f"{token} ended")
            self.answer(Ended(token, ending), self.habits.tell)
        self.look()

    def hide(self, worker: str, seconds: float = math.inf) -> None:
        """Let the scheduler lose sight of a worker for a while."""
        if worker not in self.scheduler.seen:
            return
        self.scheduler.forget([worker])
        if seconds < math.inf:
            self.agenda.after(seconds, lambda: self.show(worker))
        self.look()

    def show(self, worker: str) -> None:
        """Let the scheduler see a worker, if its instance still runs."""
        home = next(
            (one for one in self.machines.values() if worker in one.workers), None
        )
        if home is None or home.runs:
            self.scheduler.seen.add(worker)
            self.look()

    def intrude(self, worker: str) -> None:
        """Let the scheduler see a name, whoever bears it."""
        self.scheduler.seen.add(worker)
        self.look()

    def silence(self, seconds: float) -> None:
        """Let the scheduler say nothing for a while."""
        self.scheduler.silent = True
        self.agenda.after(seconds, self._speak)
        self.look()

    def _speak(self) -> None:
        self.scheduler.silent = False
        self.look()

    # -- the loop ------------------------------------------------------------------

    def look(self) -> Decision:
        """Look at everything, decide once, check it, and begin to perform it."""
        snapshot = self.fleet.snapshot(self.now, self.scheduler.view())
        decision = decide(snapshot)
        if self._watch is not None:
            self._watch(snapshot, decision)
        self._checks.decided(snapshot, decision)
        self.fleet.commit(decision)
        for command in decision.commands:
            self.commands.append((self.now, command))
            self._performing.begin(command)
        self.reasons.extend(decision.reasons)
        self._checks.committed(self.fleet, decision, self.scheduler.view())
        self.decision = decision
        self._at_once += 1
        assert self._at_once < MOST_AT_ONCE, f"going round in circles: {decision}"
        return decision

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self._run_until(self.now + seconds)

    def settle(self, limit: float = 3600.0) -> None:
        """Let time pass until nothing will happen, for at most ``limit`` seconds."""
        self._run_until(self.now + limit, at_rest=self._is_at_rest)

    def _is_at_rest(self) -> bool:
        assert self.decision is not None
        return not len(self.agenda) and self.decision.wake_at is None

    def _run_until(
        self, end: float, at_rest: Callable[[], bool] = lambda: False
    ) -> None:
        if self.decision is None:
            self.look()
        while not at_rest():
            assert self.decision is not None
            times = [self.agenda.next_at, self.decision.wake_at]
            next_at = min([at for at in times if at is not None], default=math.inf)
            if next_at > end:
                break
            if next_at > self.now:
                self._at_once = 0
            self.agenda.advance(next_at)
            # At each moment all is seen that has happened by then, as in a real loop.
            self.look()
        if not at_rest():
            self.agenda.advance(end)
            self._at_once = 0

    # -- for those who perform -----------------------------------------------------

    def draw(self, span: Span) -> float:
        """Draw a time."""
        low, high = span
        return low if low == high else self.luck.uniform(low, high)

    def chance(self, odds: float) -> bool:
        """Draw whether something happens."""
        return odds > 0 and self.luck.random() < odds

    def fate(self) -> Fate:
        """Draw what becomes of a start."""
        if self.fates:
            return self.fates.popleft()
        left = self.luck.random() if self.habits.fates else 1.0
        for fate, odds in self.habits.fates.items():
            if left < odds:
                return fate
            left -= odds
        return Fate.COMES

    def answer(self, fact: Fact, span: Span) -> None:
        """Let a fact become known after a while, and perhaps once more."""
        delay = self.draw(span)
        self.agenda.after(delay, lambda: self._apply(fact))
        if self.chance(self.habits.repeats):
            again = delay + self.draw(span)
            self.agenda.after(again, lambda: self._apply(fact))

    def _apply(self, fact: Fact) -> None:
        self._checks.answered(fact)
        self.reasons.extend(self.fleet.apply(fact, self.now))
        self.look()

    def arrive_later(
        self, machine: Machine, workers: Iterable[str], span: Span
    ) -> None:
        """Let workers come to the scheduler after a while, each at its own time."""
        for worker in workers:
            self.agenda.after(self.draw(span), partial(self._arrive, machine, worker))

    def _arrive(self, machine: Machine, worker: str) -> None:
        if not machine.runs:
            return
        self.scheduler.seen.add(worker)
        self.look()
        if machine.fate is Fate.DIES_AT_BIRTH:
            self.agenda.after(INSTANT, lambda: self.kill(machine.token))
        elif machine.fate is Fate.LOST_AT_BIRTH:
            self.agenda.after(INSTANT, lambda: self.kill(machine.token, told=False))
