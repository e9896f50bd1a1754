"""One instance on its way out, and who hears when something changes for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, ClassVar

from distributed import Scheduler, SchedulerPlugin
from distributed.scheduler import WorkerState

from dask_fleet.scheduler.gate import Gate


@dataclass(eq=False, slots=True)
class Departure:
    """One instance on its way out.

    Parameters
    ----------
    names
        Of its workers.
    workers
        Those of them that the scheduler had when it began.
    deadline
        When, in monotonic seconds, its tasks are given to others; ``None`` for never.
    fraction
        The share of the memory limit of others that its results may fill.
    recalled
        It was taken back.
    logs_of
        Names of its workers whose logs are wanted.
    logs
        These, by name, as they were at the end.
    changed
        Set when something may have changed for it.
    task
        Carries it through.
    """

    names: tuple[str, ...]
    workers: tuple[WorkerState, ...]
    deadline: float | None
    fraction: float
    recalled: bool = False
    logs_of: set[str] = field(default_factory=set)
    logs: dict[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[str] | None = None

    def is_recalled(self) -> bool:
        """Whether it was taken back."""
        return self.recalled

    def present(self, scheduler: Scheduler) -> list[WorkerState]:
        """Return those of its workers that are still there."""
        return [ws for ws in self.workers if scheduler.workers.get(ws.address) is ws]


class DrainWatch(SchedulerPlugin):
    """Hears of tasks and workers that end; installed only while somebody leaves.

    Parameters
    ----------
    scheduler
        Where it is installed.
    gate
        Told of workers that are gone.
    """

    name: ClassVar[str] = "fleet-drain-watch"

    def __init__(self, scheduler: Scheduler, gate: Gate) -> None:
        self._scheduler = scheduler
        self._gate = gate
        #: Who waits for the end of which task.
        self._by_key: dict[Any, Departure] = {}
        self._by_worker: dict[str, Departure] = {}

    def follow(self, departure: Departure) -> None:
        """Tell a departure when one of its workers or of their tasks ends."""
        for ws in departure.workers:
            self._by_worker[ws.address] = departure
            for ts in ws.processing:
                self._by_key[ts.key] = departure
        if self._by_worker and self.name not in self._scheduler.plugins:
            self._scheduler.add_plugin(self, name=self.name)

    def leave(self, departure: Departure) -> None:
        """A departure has ended."""
        for ws in departure.workers:
            if self._by_worker.get(ws.address) is departure:
                del self._by_worker[ws.address]
            for ts in ws.processing:
                self._by_key.pop(ts.key, None)
        if not self._by_worker and self.name in self._scheduler.plugins:
            self._scheduler.remove_plugin(name=self.name)

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any
    ) -> None:
        """A task has gone from one state to another."""
        if start == "processing":
            departure = self._by_key.pop(key, None)
            if departure is not None:
                departure.changed.set()

    def remove_worker(self, scheduler: Scheduler, worker: str, **kwargs: Any) -> None:
        """A worker has gone."""
        departure = self._by_worker.get(worker)
        if departure is not None:
            departure.changed.set()
            for ws in departure.workers:
                if ws.address == worker:
                    self._gate.forget(ws)
