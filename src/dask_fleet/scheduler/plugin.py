"""The scheduler plugin: it installs the handlers that a cluster calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from distributed import Scheduler, SchedulerPlugin

from dask_fleet.scheduler.adaptive_target import adaptive_target
from dask_fleet.scheduler.drain import Drains
from dask_fleet.scheduler.logs import fetch_logs
from dask_fleet.scheduler.ranking import Rankings
from dask_fleet.scheduler.send_away import send_away
from dask_fleet.scheduler.survey import find

#: Under this name the scheduler knows the plugin; one serves all clusters.
PLUGIN_NAME = "fleet"


class FleetPlugin(SchedulerPlugin):
    """Ranks, drains and retires workers inside the scheduler's process.

    Adds the handlers ``fleet_rank``, ``fleet_leave``, ``fleet_recall``, ``fleet_drop``,
    ``fleet_target`` and ``fleet_await_work``. While nobody calls them it does nothing
    but set a flag for each graph that comes in.
    """

    name: ClassVar[str] = PLUGIN_NAME

    async def start(self, scheduler: Scheduler) -> None:
        """Install the handlers."""
        self._scheduler = scheduler
        self._rankings = Rankings(scheduler)
        self._drains = Drains(scheduler)
        #: How many graphs have come in so far.
        self._graphs = 0
        #: Set when one comes in; cleared by whoever begins to wait.
        self._work = asyncio.Event()
        scheduler.handlers.update(
            {
                "fleet_rank": self._rankings.rank,
                "fleet_leave": self._drains.leave,
                "fleet_recall": self._drains.recall,
                "fleet_drop": self.drop,
                "fleet_send_away": self.send_away,
                "fleet_target": self.target,
                "fleet_await_work": self.await_work,
            }
        )

    async def send_away(self, workers: Sequence[str], limit: float) -> None:
        """Tell workers to exit, and see them off; see :func:`send_away`."""
        await send_away(self._scheduler, workers, limit)

    def update_graph(self, scheduler: Scheduler, **kwargs: Any) -> None:
        """Work has come in: tell those who wait for it."""
        self._graphs += 1
        self._work.set()

    async def await_work(self, known: int) -> int:
        """Return once more graphs have come in than the caller knows of.

        Parameters
        ----------
        known
            What the last call returned; -1 at first, to be told the present number.
        """
        while self._graphs == known:
            self._work.clear()
            await self._work.wait()
        return self._graphs

    def target(
        self,
        duration: float,
        offer: Mapping[str, float],
        threads_each: int | None = None,
        memory_each: int | None = None,
    ) -> dict[str, Any]:
        """Say how many workers should exist; see :func:`adaptive_target`."""
        return adaptive_target(
            self._scheduler, duration, offer, threads_each, memory_each
        )

    async def drop(
        self, workers: Sequence[str], logs_of: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Let go of workers at once, whatever they run or hold.

        Parameters
        ----------
        workers
            Names.
        logs_of
            Of whom the logs are wanted.

        Returns
        -------
        dict
            ``lost``: the number of ``workers`` that were there, of ``keys`` and
            ``bytes`` of results that only they held, and of ``tasks`` that they were
            running. ``logs``, by name.
        """
        found = [find(self._scheduler, name) for name in workers]
        states = [ws for ws in found if ws is not None]
        wanted = set(logs_of)
        logs = await fetch_logs(
            self._scheduler, [ws for ws in states if str(ws.name) in wanted]
        )
        gone = set(states)
        lost = {
            ts for ws in states for ts in ws.has_what if (ts.who_has or set()) <= gone
        }
        report = {
            "workers": len(states),
            "keys": len(lost),
            "bytes": sum(ts.nbytes for ts in lost),
            "tasks": sum(len(ws.processing) for ws in states),
        }
        for ws in states:
            # Not told to close: it would wait for its threads. It is ended in a moment.
            await self._scheduler.remove_worker(
                ws.address, stimulus_id="fleet-drop", expected=True, close=False
            )
        return {"lost": report, "logs": logs}

    async def close(self) -> None:
        """End what is under way: the scheduler closes."""
        await self._drains.close()
