"""Perform commands in a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dask_fleet.core import (
    Accepted,
    AskRanking,
    Command,
    Drain,
    Ending,
    EndingKind,
    Fact,
    Kept,
    Ranked,
    RankFailed,
    Recall,
    Recalled,
    RecallRefused,
    Refused,
    Release,
    Released,
    ReleaseFailed,
    Retired,
    Start,
    TurnAway,
    TurnedAway,
)
from dask_fleet.testing.fates import Fate, Span
from dask_fleet.testing.machines import Machine

if TYPE_CHECKING:
    from dask_fleet.testing.simulated import World

_REFUSALS = {
    Fate.QUOTA: Ending(EndingKind.QUOTA, "no more than this many jobs"),
    Fate.REJECTED: Ending(EndingKind.REJECTED, "no such queue"),
    Fate.UNANSWERED: Ending(EndingKind.REJECTED, "the call did not return in time"),
}


class Performing:
    """Performs commands, as badly as the world's habits say.

    Parameters
    ----------
    world
        Where.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self, command: Command) -> None:
        """Begin to perform one; its answers come later."""
        if isinstance(command, Start):
            self._start(command)
        elif isinstance(command, AskRanking):
            self._rank(command)
        elif isinstance(command, Drain):
            self._drain(command)
        elif isinstance(command, Recall):
            self._recall(command)
        elif isinstance(command, Release):
            self._release(command)
        else:
            self._turn_away(command)

    def _for_each(
        self,
        tokens: Iterable[str],
        span: Span,
        perform: Callable[[str], Fact],
        merge: Callable[[list[Fact]], list[Fact]],
    ) -> None:
        """Perform for all instances of a command, together or each at its own time."""
        world = self._world
        groups = [[token] for token in tokens]
        if not world.habits.scattered:
            groups = [[token for group in groups for token in group]]
        for group in groups:
            delay = world.draw(span)

            def act(group: list[str] = group) -> None:
                for fact in merge([perform(token) for token in group]):
                    world.answer(fact, (0.0, 0.0))

            world.agenda.after(delay, act)

    # -- starting --------------------------------------------------------------------

    def _start(self, command: Start) -> None:
        world = self._world
        size = len(command.workers) // len(command.tokens)
        for number, token in enumerate(command.tokens):
            assert token not in world.machines, f"{token} was asked for twice"
            workers = command.workers[number * size : (number + 1) * size]
            one = Machine(token, workers, world.fate())
            world.machines[token] = one
            if one.fate is Fate.EARLY:
                world.arrive_later(one, one.workers, (0.0, 0.0))
        self._for_each(command.tokens, world.habits.accept, self._accept, _merged)

    def _accept(self, token: str) -> Fact:
        world = self._world
        one = world.machines[token]
        if one.fate in _REFUSALS:
            if one.fate is Fate.UNANSWERED:
                world.arrive_later(one, one.workers, world.habits.arrive)
            else:
                one.runs = False
            return Refused((token,), _REFUSALS[one.fate])
        low, high = world.habits.arrive
        if one.fate is Fate.DIES_BEFORE:
            world.agenda.after(
                world.draw((low, high)), lambda: world.kill(token, told=True)
            )
        elif one.fate is Fate.SLOW:
            world.arrive_later(one, one.workers, (20 * low, 20 * high))
        elif one.fate not in (Fate.VANISHES, Fate.EARLY):
            coming = one.workers
            if one.fate is Fate.PARTIAL and len(coming) > 1:
                coming = coming[:-1]
            world.arrive_later(one, coming, (low, high))
        return Accepted((token,))

    # -- leaving ---------------------------------------------------------------------

    def _rank(self, command: AskRanking) -> None:
        world = self._world

        def act() -> None:
            fact: Fact
            if world.scheduler.silent or world.chance(world.habits.fail_ranking):
                fact = RankFailed("the scheduler is busy")
            else:
                ranked = world.scheduler.rank()
                if not world.habits.ranks_all:
                    ranked = ranked[: command.surplus]
                fact = Ranked(command.target, tuple(ranked))
            world.answer(fact, (0.0, 0.0))

        world.agenda.after(world.draw(world.habits.rank), act)

    def _drain(self, command: Drain) -> None:
        world = self._world
        for token in command.tokens:
            world.machines[token].draining = True
            world.machines[token].recalled = False
        self._for_each(command.tokens, world.habits.retire, self._retire, _merged)

    def _retire(self, token: str) -> Fact:
        world = self._world
        one = world.machines[token]
        one.draining = False
        if one.recalled:
            return Kept((token,), "it was taken back")
        alive = world.scheduler.seen.intersection(one.workers)
        if world.scheduler.silent and alive:
            return Kept((token,), "the scheduler does not answer")
        refused = not world.scheduler.needed.isdisjoint(alive)
        if refused or (alive and world.chance(world.habits.refuse_retirement)):
            return Kept((token,), "it has the only copy of a result")
        one.retired = True
        if world.habits.closes_retired and alive:
            world.kill(token, EndingKind.ASKED)
        return Retired((token,))

    def _recall(self, command: Recall) -> None:
        self._for_each(
            command.tokens, self._world.habits.recall, self._take_back, _merged
        )

    def _take_back(self, token: str) -> Fact:
        one = self._world.machines[token]
        if not one.draining:
            return RecallRefused((token,))
        one.recalled = True
        return Recalled((token,))

    def _release(self, command: Release) -> None:
        self._for_each(command.tokens, self._world.habits.release, self._drop, _merged)

    def _drop(self, token: str) -> Fact:
        world = self._world
        one = world.machines[token]
        if world.chance(world.habits.fail_release):
            return ReleaseFailed((token,), "the resource manager was not reached")
        one.ordered = True
        if one.stubborn:
            one.stubborn -= 1
        else:
            world.kill(token, EndingKind.ASKED)
        return Released((token,))

    def _turn_away(self, command: TurnAway) -> None:
        world = self._world

        def act() -> None:
            world.scheduler.forget(command.workers)
            world.answer(TurnedAway(command.workers), (0.0, 0.0))

        world.agenda.after(world.draw(world.habits.turn_away), act)


def _merged(facts: list[Fact]) -> list[Fact]:
    """Put answers that say the same of several instances into one."""
    by_words: dict[object, Fact] = {}
    for fact in facts:
        content = {one.name: getattr(fact, one.name) for one in fields(fact)}
        tokens: tuple[str, ...] = content.pop("tokens")
        words = (type(fact), *content.values())
        before: tuple[str, ...] = ()
        if words in by_words:
            before = getattr(by_words[words], "tokens", ())
        changes: dict[str, Any] = {"tokens": (*before, *tokens)}
        by_words[words] = replace(fact, **changes)
    return list(by_words.values())
