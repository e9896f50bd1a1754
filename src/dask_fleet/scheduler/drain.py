"""Let workers finish and leave, without losing what they run or hold.

One *departure* an instance, in steps:

1. its workers get no new task: they count as *closing gracefully* on the scheduler
   alone, so the workers themselves go on as before;
2. tasks that they have not begun are offered to others, by the scheduler's own means of
   stealing: the worker gives up only what it is not running;
3. once they run nothing, the scheduler moves the only copies of their results away
   (``Scheduler.retire_workers``);
4. the departure ends as *retired*, or as *kept* with a reason, and then the workers are
   back at work.

Until step 3 a departure can be taken back. What ends it are events: a plugin that is
installed only while somebody drains hears of every task that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar

from distributed import Scheduler, SchedulerPlugin
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

from dask_fleet.scheduler.survey import Breather, by_name

_STIMULUS = "fleet-drain"


class DrainWatch(SchedulerPlugin):
    """Hears of tasks that end; installed only while somebody drains."""

    name: ClassVar[str] = "fleet-drain-watch"

    def __init__(self) -> None:
        #: Set whenever something may have changed for somebody who waits.
        self.changed = asyncio.Event()

    def transition(
        self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any
    ) -> None:
        """A task has gone from one state to another."""
        if start == "processing":
            self.changed.set()

    def remove_worker(self, scheduler: Scheduler, worker: str, **kwargs: Any) -> None:
        """A worker has gone."""
        self.changed.set()


@dataclass(slots=True)
class Departure:
    """One instance on its way out.

    Parameters
    ----------
    workers
        Names of its workers.
    deadline
        When, in monotonic seconds, its tasks are given to others; ``None`` for never.
    retiring
        Its results are being moved; it cannot be taken back any more.
    recalled
        It was taken back.
    """

    workers: tuple[str, ...]
    deadline: float | None
    retiring: bool = False
    recalled: bool = False
    task: asyncio.Task[str] | None = field(default=None, repr=False)


class Drains:
    """All departures of one scheduler.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: Departures under way or ended and not yet asked about, by the first name.
        self._departures: dict[str, Departure] = {}
        self._watch: DrainWatch | None = None
        self._watchers = 0

    async def leave(
        self, instances: Sequence[Sequence[str]], timeout: float | None
    ) -> dict[str, str]:
        """Begin the departures of instances, and wait until one or more have ended.

        Asking again for one that is under way joins it.

        Parameters
        ----------
        instances
            Names of workers, an instance each.
        timeout
            Seconds after which its tasks are given to others; ``None`` for never.

        Returns
        -------
        dict
            For each that has ended, by its first name: empty if it is retired,
            otherwise why it stays. They are forgotten here.
        """
        deadline = None if timeout is None else monotonic() + timeout
        waited: dict[str, asyncio.Task[str]] = {}
        for names in instances:
            departure = self._departures.get(names[0])
            if departure is None:
                departure = Departure(tuple(names), deadline)
                self._departures[names[0]] = departure
                self._stop_work(departure)
                departure.task = asyncio.create_task(self._run(departure))
            assert departure.task is not None
            waited[names[0]] = departure.task
        if not waited:
            return {}
        await asyncio.wait(waited.values(), return_when=asyncio.FIRST_COMPLETED)
        ended = {}
        for first, task in waited.items():
            if task.done():
                known = self._departures.get(first)
                if known is not None and known.task is task:
                    del self._departures[first]
                error = None if task.cancelled() else task.exception()
                ended[first] = f"retiring failed: {error!r}" if error else task.result()
        return ended

    def recall(self, instances: Sequence[Sequence[str]]) -> list[str]:
        """Take departures back.

        Parameters
        ----------
        instances
            Names of workers, an instance each.

        Returns
        -------
        list of str
            The first names of those that work again.
        """
        back = []
        for names in instances:
            departure = self._departures.get(names[0])
            if departure is None or departure.retiring or departure.recalled:
                continue
            if departure.task is not None and departure.task.done():
                continue
            departure.recalled = True
            self._departures.pop(names[0])
            self._resume_work(departure, told=False)
            if self._watch is not None:
                self._watch.changed.set()
            back.append(names[0])
        return back

    async def _run(self, departure: Departure) -> str:
        """Carry one departure through; return why it stays, if it does."""
        with self._watching() as watch:
            await self._offer_waiting(departure)
            await self._until_done(departure, watch)
        if departure.recalled:
            return "it was taken back"
        departure.retiring = True
        why = await self._retire(departure)
        if why:
            self._resume_work(departure, told=True)
        return why

    @contextlib.contextmanager
    def _watching(self) -> Iterator[DrainWatch]:
        """Have the watch installed for as long as somebody needs it."""
        if self._watch is None:
            self._watch = DrainWatch()
            self._scheduler.add_plugin(self._watch)
        self._watchers += 1
        try:
            yield self._watch
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._scheduler.remove_plugin(name=DrainWatch.name)
                self._watch = None

    def _states(self, departure: Departure) -> list[WorkerState]:
        known = by_name(self._scheduler)
        return [known[name] for name in departure.workers if name in known]

    def _stop_work(self, departure: Departure) -> None:
        """Give its workers no new task. They are not told: what they run goes on."""
        for ws in self._states(departure):
            self._scheduler.handle_worker_status_change(
                Status.closing_gracefully, ws, _STIMULUS
            )

    def _resume_work(self, departure: Departure, *, told: bool) -> None:
        """Let its workers work again; tell them if they had been told to stop."""
        for ws in self._states(departure):
            if told:
                self._scheduler.stream_comms[ws.address].send(
                    {
                        "op": "worker-status-change",
                        "status": Status.running.name,
                        "stimulus_id": _STIMULUS,
                    }
                )
            self._scheduler.handle_worker_status_change(Status.running, ws, _STIMULUS)

    async def _until_done(self, departure: Departure, watch: DrainWatch) -> None:
        """Return once it runs nothing, is taken back, or its time is up."""
        while not departure.recalled:
            watch.changed.clear()
            states = self._states(departure)
            if not any(ws.processing for ws in states):
                return
            self._stop_work(departure)  # a worker that had paused may have resumed
            left = None
            if departure.deadline is not None:
                left = departure.deadline - monotonic()
                if left <= 0:
                    await self._give_up_tasks(states)
                    return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(watch.changed.wait(), left)

    async def _give_up_tasks(self, states: list[WorkerState]) -> None:
        """Its time is up: others run its tasks, and it is not to blame."""
        for ws in states:
            for ts in list(ws.processing):
                self._scheduler._reschedule(ts.key, stimulus_id=_STIMULUS)

    async def _offer_waiting(self, departure: Departure) -> None:
        """Offer the tasks that it has not begun to others."""
        stealing = self._scheduler.extensions.get("stealing")
        if stealing is None:
            return
        breather = Breather()
        for ws in self._states(departure):
            for ts in list(ws.processing):
                if ts in ws.processing and ts not in ws.long_running:
                    thief = self._taker_of(ts)
                    if thief is not None:
                        stealing.move_task_request(ts, ws, thief)
                await breather.breathe()

    def _taker_of(self, ts: TaskState) -> WorkerState | None:
        """Choose who takes a task over: of those that may, the least occupied."""
        scheduler = self._scheduler
        valid = scheduler.valid_workers(ts)
        candidates = scheduler.running if valid is None else valid & scheduler.running
        if not candidates:
            return None
        if valid is None and scheduler.idle:
            return next(iter(scheduler.idle.values()))
        return min(candidates, key=lambda ws: ws.occupancy / ws.nthreads)

    async def _retire(self, departure: Departure) -> str:
        """Move the only copies of its results away; return why not, if it fails."""
        states = self._states(departure)
        if not states:
            return ""
        holders = [ws for ws in states if ws.actors]
        if holders:
            return "it holds an actor"
        addresses = [ws.address for ws in states]
        retired = await self._scheduler.retire_workers(
            workers=addresses, close_workers=False, remove=False
        )
        late = {ws.address for ws in self._states(departure)} - set(retired)
        if late:
            return "nobody else can take the only copies of its results"
        return ""
