"""What the scheduler does for one fleet: rank, drain, retire, and keep the logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from dask.utils import format_bytes

from dask_fleet.cluster.arguments import described
from dask_fleet.cluster.departed import DepartedLogs
from dask_fleet.cluster.errors import ClosedError
from dask_fleet.cluster.scheduler_link import Leaving, Names, SchedulerLink
from dask_fleet.core import Cause, Reason
from dask_fleet.core.causes import because

logger = logging.getLogger(__name__)

#: Seconds that fetching the logs of somebody who leaves may take.
LOG_LIMIT = 5.0


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
        """Let workers leave in this way from now on."""
        self.how = how

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
        """Keep the logs, then drain and retire, or drop at once if forced to."""
        await self._keep_logs([name for names in instances for name in names])
        if self.how.force:
            await self._drop(instances)
            for names in instances:
                yield names[0], ""
            return
        async for ended in self.link.leave(instances, self.how):
            yield ended

    async def _drop(self, instances: Sequence[Names]) -> None:
        names = [name for group in instances for name in group]
        lost = await self.link.drop(names)
        reason = because(
            Cause.DROPPED,
            *names,
            count=len(names),
            keys=lost.get("keys", 0),
            size=format_bytes(lost.get("bytes", 0)),
            tasks=lost.get("tasks", 0),
        )
        self._happened([reason])

    async def _keep_logs(self, workers: Names) -> None:
        try:
            logs = await asyncio.wait_for(self.link.logs(workers), LOG_LIMIT)
        except (OSError, asyncio.TimeoutError) as error:
            logger.info("logs of %s could not be kept: %s", workers, described(error))
        else:
            self._departed.keep(logs)

    async def recall(self, instances: Sequence[Names]) -> set[str]:
        """Take drains back."""
        return await self.link.recall(instances)

    async def turn_away(self, workers: Names) -> None:
        """Send workers away."""
        await self.link.turn_away(workers)


def forced(how: Leaving) -> Leaving:
    """Leave at once, whatever is lost."""
    return replace(how, force=True, memory_fraction=float("inf"))
