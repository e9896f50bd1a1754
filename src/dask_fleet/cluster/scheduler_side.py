"""What the scheduler does for one fleet: rank, drain, retire, and keep the logs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic

from dask.utils import format_bytes

from dask_fleet.cluster.departed import DepartedLogs
from dask_fleet.cluster.errors import ClosedError
from dask_fleet.cluster.scheduler_link import Leaving, Names, SchedulerLink
from dask_fleet.cluster.scheduler_stream import FIRST_WAIT, RETRIES
from dask_fleet.core import Cause, Reason
from dask_fleet.core.causes import because


class SchedulerSide:
    """Speaks through the link, with what this fleet wants of those who leave.

    Parameters
    ----------
    addresses
        Gives the address of each worker that the scheduler sees, by name.
    departed
        Where the logs of those who leave are kept.
    how
        How workers leave.
    happened
        Told of what force has lost.
    """

    def __init__(
        self,
        addresses: Callable[[], Mapping[str, str]],
        departed: DepartedLogs,
        how: Leaving,
        happened: Callable[[list[Reason]], None],
    ) -> None:
        self.how = how
        self._how_changed = asyncio.Event()
        self._addresses = addresses
        self._departed = departed
        self._happened = happened
        self._detail = ""
        self._link: SchedulerLink | None = None

    def connect(self, link: SchedulerLink) -> None:
        """Speak through this link from now on."""
        self._link = link

    @property
    def link(self) -> SchedulerLink:
        """The link.

        Raises
        ------
        ClosedError
            If there is none yet.
        """
        if self._link is None:
            raise ClosedError("the cluster is not connected to a scheduler")
        return self._link

    def wish(self, how: Leaving) -> None:
        """Let workers leave in this way from now on, those on their way out too."""
        if how != self.how:
            self.how = how
            self._how_changed.set()
            self._how_changed = asyncio.Event()

    async def rank(self, instances: Sequence[Names], surplus: int) -> list[str]:
        """Ask who should leave.

        Parameters
        ----------
        instances
            Names of the workers that may leave, an instance each.
        surplus
            Workers that should leave.
        """
        self._detail = ""
        if surplus <= 0 or not instances:
            return []
        ranking = await self.link.rank(instances, surplus, self.how)
        self._detail = ranking.detail
        return ranking.workers

    def why_not_more(self) -> str:
        """Why the last ranking named fewer workers than were asked for."""
        return self._detail

    def sees(self, workers: Names) -> bool:
        """Whether one of these workers is with the scheduler."""
        known = self._addresses()
        return any(name in known for name in workers)

    async def leave(self, instances: Sequence[Names]) -> AsyncIterator[tuple[str, str]]:
        """Drain and retire, or drop at once if forced to.

        How they leave may change on the way: the last wish counts.

        Parameters
        ----------
        instances
            Names of workers, an instance each.

        Yields
        ------
        tuple
            The first name of one that has ended, and why it stays; empty if it is
            retired.
        """
        left = {names[0]: names for names in instances}
        all_names = [name for names in instances for name in names]
        logs_of = all_names[-self._departed.length :] if self._departed.length else []
        how, begun = self.how, monotonic()
        broken = 0
        while left:
            if how is not self.how:
                how, begun = self.how, monotonic()
            timeout = None
            if how.drain_timeout is not None:
                timeout = max(0.0, begun + how.drain_timeout - monotonic())
            try:
                ended = await self._next_ended(
                    list(left.values()), how, timeout, logs_of
                )
            except OSError:
                broken += 1
                if broken > RETRIES:
                    await self._leave_in_peace(list(left.values()))
                    raise
                await asyncio.sleep(FIRST_WAIT * 2**broken)
                continue
            for first, why in ended.items():
                del left[first]
                yield first, why

    async def _leave_in_peace(self, instances: Sequence[Names]) -> None:
        """Nobody hears any more what becomes of them, so they had better stay."""
        with contextlib.suppress(OSError):
            await self.link.recall(instances)

    async def _next_ended(
        self,
        instances: Sequence[Names],
        how: Leaving,
        timeout: float | None,
        logs_of: Names,
    ) -> Mapping[str, str]:
        """Wait until one has ended; nothing if the way of leaving has changed."""
        if how.force:
            return await self._drop(instances, logs_of)
        call = asyncio.ensure_future(self.link.leave(instances, how, timeout, logs_of))
        change = asyncio.ensure_future(self._how_changed.wait())
        try:
            await asyncio.wait((call, change), return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                return {}
            ended = call.result()
        finally:
            call.cancel()
            change.cancel()
        self._departed.keep(ended.logs)
        return ended.why

    async def _drop(
        self, instances: Sequence[Names], logs_of: Names
    ) -> Mapping[str, str]:
        names = [name for group in instances for name in group]
        lost, logs = await self.link.drop(names, logs_of)
        self._departed.keep(logs)
        all_gone = {group[0]: "" for group in instances}
        if lost.get("workers") == 0:
            return all_gone  # before somebody said so
        reason = because(
            Cause.DROPPED,
            *names,
            count=len(names),
            keys=lost.get("keys", 0),
            size=format_bytes(lost.get("bytes", 0)),
            tasks=lost.get("tasks", 0),
        )
        self._happened([reason])
        return all_gone

    async def recall(self, instances: Sequence[Names]) -> set[str]:
        """Take drains back."""
        return await self.link.recall(instances)

    async def turn_away(self, workers: Names) -> None:
        """Send workers away."""
        await self.link.turn_away(workers)


def forced(how: Leaving) -> Leaving:
    """Leave at once, whatever is lost."""
    return replace(how, force=True, memory_fraction=float("inf"))
