"""Look at a cluster a few times a second: show it, and keep the accounts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from dask_fleet.cli.display import Display, View
from dask_fleet.cli.ledger import Ledger
from dask_fleet.cli.tasks import count_tasks
from dask_fleet.view import Place, Status, Summary

if TYPE_CHECKING:
    from dask_fleet.cluster import Cluster

#: Seconds between two looks.
INTERVAL = 0.25

#: States of a cluster that it does not come back from.
OVER = frozenset({"closed", "closing", "failed"})


class Watch:
    """Watches a cluster while its ``async with`` block runs.

    Parameters
    ----------
    cluster
        Whom to watch.
    display
        Where to show it.
    hint
        Gives what the user can do now, or nothing.
    clock
        Seconds that never go back.

    Attributes
    ----------
    ledger
        The accounts.
    over
        Set when the cluster has ended by itself.
    """

    def __init__(
        self,
        cluster: Cluster,
        display: Display,
        *,
        hint: Callable[[], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ledger = Ledger()
        self.over = asyncio.Event()
        self._cluster = cluster
        self._display = display
        self._hint = hint
        self._clock = clock
        self._started = clock()
        self._place = place(cluster)
        self._told = ""
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Watch:
        self._display.open()
        # Shown before anything else happens, however short it will be.
        await self.show()
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._tell_failure(self._look().status)
        await asyncio.to_thread(self._display.close)
        if not self._task.cancelled():
            self._task.result()

    async def show(self) -> None:
        """Look and show."""
        # In a thread: writing to a terminal that was stopped (Ctrl-S) takes its time.
        view = self._look()
        await asyncio.to_thread(self._display.show, view)
        await self._tell_failure(view.status)
        if self._cluster.status.name in OVER:
            self.over.set()

    def summary(self, outcome: str, seconds: float) -> Summary:
        """Sum up what was seen."""
        return Summary(
            outcome=outcome,
            seconds=seconds,
            peak=self.ledger.peak,
            worker_seconds=self.ledger.worker_seconds,
            decisions=self.ledger.decisions,
        )

    async def _watch(self) -> None:
        while not self.over.is_set():
            await asyncio.sleep(INTERVAL)
            await self.show()

    def _look(self) -> View:
        now = self._clock()
        status = read_status(self._cluster)
        self.ledger.note(now, status.observed)
        self.ledger.count(self._cluster.events)
        return View(
            status=status,
            place=self._place,
            seconds=now - self._started,
            hint=self._hint(),
        )

    async def _tell_failure(self, status: Status) -> None:
        """Say that there can be no workers, once for each reason."""
        if status.health != "failed" or status.sentence == self._told:
            return
        self._told = status.sentence
        text = f"workers cannot be started: {status.sentence}"
        await asyncio.to_thread(self._display.notice, text)


def place(cluster: Cluster) -> Place:
    """Say where a cluster can be reached."""
    return Place(
        scheduler=cluster.scheduler_address, dashboard=cluster.dashboard_link or ""
    )


def read_status(cluster: Cluster) -> Status:
    """Read what a cluster knows of itself; asks nobody."""
    state = cluster.state
    return Status(
        mode=state.mode,
        target=state.target,
        plan=state.plan,
        requested=state.requested,
        observed=state.observed,
        minimum=state.minimum,
        maximum=state.maximum,
        health=state.health,
        sentence=str(state.last),
        tasks=count_tasks(cluster),
    )
