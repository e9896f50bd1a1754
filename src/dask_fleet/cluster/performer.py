"""Turn each command into one call, and what comes of it into facts.

Every command gets its answer, whatever the call does: returns, raises, hangs or gives
back nonsense. That is the promise the core builds on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

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
from dask_fleet.scheduler import TAKEN_BACK

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

    def leave(
        self, instances: Sequence[Sequence[str]]
    ) -> AsyncIterator[tuple[str, str]]:
        """Drain and retire; tell of each that has ended: first name, why it stays."""

    async def recall(self, instances: Sequence[Sequence[str]]) -> set[str]:
        """Take drains back; return the first names of those that work again."""

    async def turn_away(self, workers: Sequence[str]) -> None:
        """Send workers away."""

    def sees(self, workers: Sequence[str]) -> bool:
        """Whether one of these workers is with the scheduler."""

    def why_not_more(self) -> str:
        """Why the last ranking named fewer workers than were asked for."""


class CallFailed(RuntimeError):
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
    closing
        Whether everything goes at once, so that nobody is drained.
    """

    def __init__(
        self,
        manager: Manager,
        scheduler: SchedulerSide,
        workers_of: Callable[[str], tuple[str, ...]],
        call_timeout: float,
        closing: Callable[[], bool],
    ) -> None:
        self._manager = manager
        self._scheduler = scheduler
        self._workers_of = workers_of
        self._call_timeout = call_timeout
        self._closing = closing

    async def perform(self, command: Command) -> AsyncIterator[Fact]:
        """Perform one command; tell what becomes of it, as it becomes known.

        Never raises.
        """
        if isinstance(command, Drain):
            async for fact in self._drain(command):
                yield fact
        else:
            for fact in await self._answer(command):
                yield fact

    async def _answer(self, command: Command) -> list[Fact]:
        """Perform a command whose answer comes in one piece."""
        if isinstance(command, Start):
            return await self._start(command)
        if isinstance(command, Release):
            return await self._release(command)
        if isinstance(command, Recall):
            return await self._recall(command)
        if isinstance(command, AskRanking):
            return await self._rank(command)
        assert isinstance(command, TurnAway)
        return await self._turn_away(command)

    async def _call(self, what: str, hook: Callable[[], Awaitable[T]]) -> T:
        """Call code that is not ours; it gives a result or ``CallFailed``.

        A call that is late is told to end and not waited for: it may not listen.
        """
        try:
            call = asyncio.ensure_future(hook())
        except Exception as error:
            raise CallFailed(described(error)) from error
        try:
            done, _ = await asyncio.wait({call}, timeout=self._call_timeout)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if not done:
            call.cancel()
            call.add_done_callback(_forget)
            limit = f"{self._call_timeout:g} s"
            raise CallFailed(f"{what} did not return within {limit}")
        if call.cancelled():
            raise CallFailed(f"{what} was cancelled")
        problem = call.exception()
        if problem is not None:
            raise CallFailed(described(problem)) from problem
        return call.result()

    async def _start(self, command: Start) -> list[Fact]:
        names = list(command.workers)
        try:
            returned = await self._call(
                "scale_up", lambda: self._manager.scale_up(list(names))
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
        stays = await self._look_once_more(command.tokens)
        leaving = [token for token in command.tokens if token not in stays]
        facts: list[Fact] = [
            ReleaseFailed((token,), why) for token, why in stays.items()
        ]
        if not leaving:
            return facts
        workers = [name for token in leaving for name in self._workers_of(token)]
        try:
            await self._call("scale_down", lambda: self._manager.scale_down(workers))
        except CallFailed as error:
            return [*facts, ReleaseFailed(tuple(leaving), str(error))]
        return [*facts, Released(tuple(leaving))]

    async def _look_once_more(self, tokens: Iterable[str]) -> dict[str, str]:
        """Retire those that the scheduler sees, again if they were retired before.

        One that was withdrawn before it had arrived may arrive before the resource
        manager is told, and may have been given a task or a result by then. And one
        that was retired may have been sent data by a client that had begun before.

        Returns
        -------
        dict
            Those that cannot leave, and why.
        """
        seen = {
            names[0]: token
            for token in tokens
            if self._scheduler.sees(names := self._workers_of(token))
        }
        stays = {}
        if seen and not self._closing():
            instances = [self._workers_of(token) for token in seen.values()]
            try:
                async for first, why in self._scheduler.leave(instances):
                    if why:
                        stays[seen[first]] = why
            except Exception as error:  # noqa: BLE001  # whatever it is, they stay
                stays = dict.fromkeys(seen.values(), described(error))
        return stays

    async def _drain(self, command: Drain) -> AsyncIterator[Fact]:
        """Tell of each instance once it has ended, not of all at the end."""
        names = self._known(command.tokens)
        home = {workers[0]: token for token, workers in names.items()}
        try:
            async for first, why in self._scheduler.leave(list(names.values())):
                token = home.pop(first)
                if why == TAKEN_BACK:
                    yield Recalled((token,))
                elif why:
                    yield Kept((token,), why)
                else:
                    yield Retired((token,))
        except Exception as error:  # noqa: BLE001  # it owes an answer all the same
            yield Kept(tuple(home.values()), described(error))
        else:
            if home:
                yield Kept(tuple(home.values()), "the scheduler did not answer")

    async def _recall(self, command: Recall) -> list[Fact]:
        names = self._known(command.tokens)
        instances = list(names.values())
        try:
            back = await self._call("recall", lambda: self._scheduler.recall(instances))
        except CallFailed:
            back = set()
        recalled = tuple(
            token for token, workers in names.items() if workers[0] in back
        )
        refused = tuple(token for token in names if token not in recalled)
        return [Recalled(recalled), RecallRefused(refused)]

    def _known(self, tokens: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the names of instances; of those that have ended meanwhile, none."""
        names = {token: self._workers_of(token) for token in tokens}
        return {token: workers for token, workers in names.items() if workers}

    async def _rank(self, command: AskRanking) -> list[Fact]:
        try:
            names = await self._call(
                "workers_to_close",
                lambda: self._manager.workers_to_close(command.target),
            )
            ranked = tuple(str(name) for name in names)
            return [Ranked(command.target, ranked, self._scheduler.why_not_more())]
        except (CallFailed, TypeError) as error:
            return [RankFailed(described(error))]

    async def _turn_away(self, command: TurnAway) -> list[Fact]:
        # Noted even if it has failed: the core tells it again after a while.
        with contextlib.suppress(CallFailed):
            await self._call(
                "turn_away", lambda: self._scheduler.turn_away(command.workers)
            )
        return [TurnedAway(command.workers)]


def _forget(call: asyncio.Future[Any]) -> None:
    """Nobody waits for what becomes of a call that was late."""
    if not call.cancelled():
        call.exception()
