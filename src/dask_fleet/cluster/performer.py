"""Turn each command into one call, and what comes of it into facts.

Every command gets its answer, whatever the call does: returns, raises, hangs or gives
back nonsense. That is the promise the core builds on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from dask_fleet.cluster.arguments import described
from dask_fleet.cluster.hooks import Refusals, read_refusals
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

T = TypeVar("T")


class Manager(Protocol):
    """The hooks of a cluster, as the performer needs them."""

    async def scale_up(self, workers: list[str]) -> Refusals:
        """Ask for these workers."""

    async def scale_down(self, workers: list[str]) -> None:
        """Let go of these workers."""

    async def workers_to_close(self, target: int) -> list[str]:
        """Say who should leave."""


class SchedulerSide(Protocol):
    """What the scheduler does for us, as the performer needs it."""

    async def retire(self, workers: Sequence[str]) -> dict[str, str]:
        """Drain and retire; return the names that stay, with the reason."""

    async def recall(self, workers: Sequence[str]) -> set[str]:
        """Take drains back; return the names that work again."""

    async def turn_away(self, workers: Sequence[str]) -> None:
        """Send workers away."""


class CallFailed(Exception):
    """A call raised or did not end in time; the message says so in one line."""


class Performer:
    """Performs commands.

    Parameters
    ----------
    manager
        The hooks of the cluster.
    scheduler
        The scheduler's side.
    workers_of
        The worker names of an instance, by its token.
    call_timeout
        Limit of a call to the resource manager, in seconds. Draining has none of its
        own: it lasts as long as the tasks that run.
    """

    def __init__(
        self,
        manager: Manager,
        scheduler: SchedulerSide,
        workers_of: Callable[[str], tuple[str, ...]],
        call_timeout: float,
    ) -> None:
        self._manager = manager
        self._scheduler = scheduler
        self._workers_of = workers_of
        self._call_timeout = call_timeout

    async def perform(self, command: Command) -> list[Fact]:
        """Perform one command; return what became of it. Never raises."""
        if isinstance(command, Start):
            return await self._start(command)
        if isinstance(command, Release):
            return await self._release(command)
        if isinstance(command, Drain):
            return await self._drain(command)
        if isinstance(command, Recall):
            return await self._recall(command)
        if isinstance(command, AskRanking):
            return await self._rank(command)
        return await self._turn_away(command)

    async def _call(self, what: str, call: Awaitable[T], limit: float | None) -> T:
        """Await a call to code that is not ours, whatever it does."""
        try:
            return await asyncio.wait_for(call, limit)
        except asyncio.TimeoutError as error:
            if limit is None:
                raise CallFailed(f"{what} timed out: {described(error)}") from error
            raise CallFailed(f"{what} did not return within {limit:g} s") from error
        except Exception as error:
            raise CallFailed(described(error)) from error

    async def _start(self, command: Start) -> list[Fact]:
        names = list(command.workers)
        try:
            returned = await self._call(
                "scale_up", self._manager.scale_up(list(names)), self._call_timeout
            )
            refused = read_refusals(returned, names)
        except (CallFailed, TypeError) as error:
            ending = Ending(EndingKind.REJECTED, described(error))
            return [Refused(command.tokens, ending)]
        facts: list[Fact] = []
        accepted = []
        for token in command.tokens:
            # An instance is one thing: refused as soon as one of its names is.
            why = [refused[name] for name in self._workers_of(token) if name in refused]
            if why:
                facts.append(Refused((token,), why[0]))
            else:
                accepted.append(token)
        return [Accepted(tuple(accepted)), *facts]

    async def _release(self, command: Release) -> list[Fact]:
        call = self._manager.scale_down(list(command.workers))
        try:
            await self._call("scale_down", call, self._call_timeout)
        except CallFailed as error:
            return [ReleaseFailed(command.tokens, str(error))]
        return [Released(command.tokens)]

    async def _drain(self, command: Drain) -> list[Fact]:
        try:
            kept = await self._call(
                "retiring", self._scheduler.retire(command.workers), None
            )
        except CallFailed as error:
            return [Kept(command.tokens, str(error))]
        facts: list[Fact] = []
        retired = []
        for token in command.tokens:
            why = [kept[name] for name in self._workers_of(token) if name in kept]
            if why:
                facts.append(Kept((token,), why[0]))
            else:
                retired.append(token)
        return [Retired(tuple(retired)), *facts]

    async def _recall(self, command: Recall) -> list[Fact]:
        try:
            back = await self._call(
                "recall", self._scheduler.recall(command.workers), self._call_timeout
            )
        except CallFailed:
            back = set()
        recalled = self._where(command.tokens, back.issuperset)
        refused = tuple(token for token in command.tokens if token not in recalled)
        return [Recalled(recalled), RecallRefused(refused)]

    def _where(
        self, tokens: Iterable[str], true: Callable[[tuple[str, ...]], bool]
    ) -> tuple[str, ...]:
        return tuple(token for token in tokens if true(self._workers_of(token)))

    async def _rank(self, command: AskRanking) -> list[Fact]:
        call = self._manager.workers_to_close(command.target)
        try:
            names = await self._call("workers_to_close", call, self._call_timeout)
            return [Ranked(command.target, tuple(str(name) for name in names))]
        except (CallFailed, TypeError) as error:
            return [RankFailed(described(error))]

    async def _turn_away(self, command: TurnAway) -> list[Fact]:
        call = self._scheduler.turn_away(command.workers)
        try:
            await self._call("turn_away", call, self._call_timeout)
        except CallFailed:
            # Noted all the same: the core tells it again after a while.
            return [TurnedAway(command.workers)]
        return [TurnedAway(command.workers)]
