"""Let workers finish and leave, without losing what they run or hold.

One *departure* an instance, in steps:

1. its workers get no new task (``gate.py``), and what they run goes on;
2. tasks that they have not begun are asked back, and others run them;
3. once they run nothing, the only copies of their results are moved away
   (``moving.py``);
4. in one turn of the event loop the scheduler makes sure that there is nothing left to
   run or to lose. What came in since, such as data that a client has sent there, goes
   back to step 3.

It ends as *retired*, or as *kept* with a reason, and then the workers are back at work.
Until its end it can be taken back.

Retired workers are with the scheduler until the resource manager ends them, and get
nothing to do. Just before it does, they are asked to leave once more, and step 4 is
repeated: a client may have begun to send them data before they were shut.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic

from distributed import Scheduler
from distributed.scheduler import WorkerState

from dask_fleet.scheduler.departure import Departure, DrainWatch
from dask_fleet.scheduler.gate import STIMULUS, Gate
from dask_fleet.scheduler.logs import fetch_logs
from dask_fleet.scheduler.moving import Mover
from dask_fleet.scheduler.survey import find, is_only_with

logger = logging.getLogger(__name__)

#: Whatever was missed, a departure looks again after so many seconds.
RECHECK = 1.0

#: How a departure that was taken back has ended.
TAKEN_BACK = "it was taken back"


class Drains:
    """All departures of one scheduler.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._gate = Gate(scheduler)
        self._mover = Mover(scheduler)
        self._watch = DrainWatch(scheduler, self._gate)
        #: Departures under way, by the first name.
        self._departures: dict[str, Departure] = {}
        #: Those that are retired and not gone.
        self._retired: dict[str, Departure] = {}

    async def leave(
        self,
        instances: Sequence[Sequence[str]],
        timeout: float | None,
        fraction: float,
        logs_of: Sequence[str] = (),
    ) -> dict[str, dict[str, str]]:
        """Begin the departures of instances, and wait until one or more have ended.

        Asking again for one that is under way joins it, with the new limits.

        Parameters
        ----------
        instances
            Names of workers, an instance each.
        timeout
            Seconds after which its tasks are given to others; ``None`` for never.
        fraction
            The share of the memory limit of others that its results may fill.
        logs_of
            Names of the workers whose logs are wanted.

        Returns
        -------
        dict
            ``why``, by the first name of each that has ended: empty if it is retired,
            otherwise why it stays. ``logs`` of workers, by name.
        """
        deadline = None if timeout is None else monotonic() + timeout
        wanted = set(logs_of)
        answer: dict[str, dict[str, str]] = {"why": {}, "logs": {}}
        waited: dict[str, Departure] = {}
        self._forget_gone()
        for names in instances:
            departure = self._departures.get(names[0])
            if departure is None and self._is_still_retired(names[0]):
                answer["why"][names[0]] = ""
                continue
            if departure is None:
                departure = self._begin(names, deadline, fraction)
            elif departure.deadline != deadline:
                departure.deadline = deadline
                departure.changed.set()
            departure.logs_of |= wanted.intersection(names)
            waited[names[0]] = departure
        tasks = [one.task for one in waited.values() if one.task is not None]
        if not tasks or answer["why"]:
            return answer
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # Many end in the same turn of the loop: tell of all of them.
        await asyncio.sleep(0)
        for first, departure in waited.items():
            if departure.task is not None and departure.task.done():
                closing = departure.task.cancelled()
                answer["why"][first] = (
                    "the scheduler closes" if closing else departure.task.result()
                )
                answer["logs"].update(departure.logs)
        return answer

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
            if departure is not None:
                departure.recalled = True
                departure.changed.set()
                self._end(departure)
            else:
                departure = self._retired.pop(names[0], None)
            if departure is not None:
                self._gate.open(departure.workers)
                back.append(names[0])
        return back

    async def close(self) -> None:
        """End all departures where they are."""
        tasks = [one.task for one in self._departures.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_still_retired(self, first: str) -> bool:
        """Look once more at one that was retired, if it was."""
        departure = self._retired.get(first)
        if departure is None:
            return False
        return all(map(_is_empty, departure.present(self._scheduler)))

    def _forget_gone(self) -> None:
        for first, departure in list(self._retired.items()):
            if not departure.present(self._scheduler):
                del self._retired[first]
                self._gate.open(departure.workers)

    # -- one departure ---------------------------------------------------------------

    def _begin(
        self, names: Sequence[str], deadline: float | None, fraction: float
    ) -> Departure:
        found = [find(self._scheduler, name) for name in names]
        workers = tuple(ws for ws in found if ws is not None)
        departure = Departure(tuple(names), workers, deadline, fraction)
        self._gate.shut(workers)
        # It was retired and has got something to do since: now it is shut twice.
        before = self._retired.pop(names[0], None)
        if before is not None:
            self._gate.open(before.workers)
        self._watch.follow(departure)
        self._departures[names[0]] = departure
        departure.task = asyncio.create_task(
            self._run(departure), name=f"fleet departure of {names[0]}"
        )
        return departure

    def _end(self, departure: Departure) -> None:
        """Take a departure off the books."""
        if self._departures.get(departure.names[0]) is departure:
            del self._departures[departure.names[0]]
            self._watch.leave(departure)

    async def _run(self, departure: Departure) -> str:
        """Carry one departure through; return why it stays, if it does."""
        asking = asyncio.gather(*map(self._gate.ask_back, departure.workers))
        asking.add_done_callback(_note_failure)
        try:
            why = await self._retire(departure)
        except Exception as error:
            logger.exception("the departure of %s failed", departure.names)
            why = f"retiring failed: {error!r}"
        finally:
            asking.cancel()
            self._end(departure)
        if departure.is_recalled():
            return TAKEN_BACK
        if why:
            self._gate.open(departure.workers)
        else:
            self._retired[departure.names[0]] = departure
        return why

    async def _retire(self, departure: Departure) -> str:
        """Finish and move results away; return why not, if it fails.

        More than one round is needed only if something comes in meanwhile.
        """
        while not departure.is_recalled():
            await self._until_done(departure)
            present = departure.present(self._scheduler)
            if any(ws.actors for ws in present):
                return "it holds an actor"
            why = await self._mover.move(
                present, departure.fraction, departure.is_recalled
            )
            if why:
                return why
            wanted = [ws for ws in present if str(ws.name) in departure.logs_of]
            departure.logs.update(await fetch_logs(self._scheduler, wanted))
            if all(map(_is_empty, departure.present(self._scheduler))):
                break
        return ""

    async def _until_done(self, departure: Departure) -> None:
        """Return once it runs nothing, is taken back, or its time is up."""
        while not departure.is_recalled():
            departure.changed.clear()
            present = departure.present(self._scheduler)
            if not any(ws.processing for ws in present):
                return
            left = RECHECK
            if departure.deadline is not None:
                left = min(left, departure.deadline - monotonic())
                if left <= 0:
                    self._give_up_tasks(present)
                    return
            try:
                await asyncio.wait_for(departure.changed.wait(), left)
            except asyncio.TimeoutError:
                self._watch.follow(departure)

    def _give_up_tasks(self, workers: Sequence[WorkerState]) -> None:
        """Time is up: others run its tasks, and nobody is to blame."""
        self._scheduler.transitions(
            {ts.key: "released" for ws in workers for ts in ws.processing}, STIMULUS
        )


def _is_empty(ws: WorkerState) -> bool:
    """Whether a worker has nothing to run and nothing to lose."""
    return (
        not ws.processing
        and not ws.actors
        and not any(is_only_with(ts) for ts in ws.has_what)
    )


def _note_failure(asking: asyncio.Future[list[None]]) -> None:
    if not asking.cancelled() and (error := asking.exception()) is not None:
        logger.error("asking for tasks back failed", exc_info=error)
