"""Move the only copies of results away from workers that are about to leave.

The scheduler asks those who stay to fetch the results, many at a time, as the active
memory manager does: fetching workers find out for themselves from whom and when. Other
than with its ``RetireWorker``, a result is not asked for again while the one who was
asked is there, so nothing is moved twice; whoever has most room is asked; and however
many leave at a time, they do not hold the event loop for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic, perf_counter

from dask.typing import Key
from dask.utils import format_bytes
from distributed import Scheduler
from distributed.comm.core import CommClosedError
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

from dask_fleet.scheduler.breather import STRIDE, Breather
from dask_fleet.scheduler.survey import Room, is_only_with, only_copies, room_of

STIMULUS = "fleet-retire"

#: Seconds between two looks at what has arrived; more if looking takes long.
SHORTEST_PAUSE = 0.005
LONGEST_PAUSE = 0.25

#: A result that has not arrived after so many seconds is asked for again.
ASK_AGAIN = 30.0

#: The room of those who stay is measured anew after so many seconds.
MEASURE_AGAIN = 1.0

#: Why results stay where they are if nobody works who could take them.
NOBODY = "nobody else is there to take the only copies of its results"


@dataclass(frozen=True, slots=True)
class _Promise:
    """Somebody was asked to fetch a result."""

    taker: WorkerState
    nbytes: int
    at: float

    def is_void(self) -> bool:
        late = monotonic() > self.at + ASK_AGAIN
        return late or self.taker.status is not Status.running


class Takers:
    """Those who stay, the one with most room first.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: Bytes that were asked for and have not arrived, by who was asked.
        self._promised: defaultdict[WorkerState, int] = defaultdict(int)
        #: Room as last measured, what is promised aside.
        self._room: dict[WorkerState, float] = {}
        self._heap: list[tuple[tuple[float, int], int, WorkerState]] = []
        self._measured_at = float("-inf")
        self._fraction = 0.0

    def room(self, fraction: float) -> Room:
        """Measure the room of those who stay, less what is promised already."""
        promised = sum(
            nbytes
            for ws, nbytes in self._promised.items()
            if ws.status is Status.running
        )
        return room_of(self._scheduler.running, fraction) - Room(float(promised))

    def pick(self, nbytes: int, fraction: float) -> WorkerState | None:
        """Choose who should fetch a result; ``None`` if nobody stays."""
        self._measure(fraction)
        while self._heap:
            _, number, ws = self._heap[0]
            if ws.status is Status.running:
                self._promised[ws] += nbytes
                heapq.heapreplace(self._heap, (self._rank(ws), number, ws))
                return ws
            heapq.heappop(self._heap)
        return None

    def settle(self, promise: _Promise) -> None:
        """A promise was kept, or will not be."""
        self._promised[promise.taker] -= promise.nbytes
        if self._promised[promise.taker] <= 0:
            del self._promised[promise.taker]

    def _rank(self, ws: WorkerState) -> tuple[float, int]:
        promised = self._promised.get(ws, 0)
        return (promised - self._room[ws], ws.nbytes + promised)

    def _measure(self, fraction: float) -> None:
        fresh = monotonic() < self._measured_at + MEASURE_AGAIN
        if self._heap and fresh and fraction == self._fraction:
            return
        self._measured_at, self._fraction = monotonic(), fraction
        self._room = {
            ws: ws.memory_limit * fraction - ws.nbytes
            if ws.memory_limit
            else float("inf")
            for ws in self._scheduler.running
        }
        self._heap = [
            (self._rank(ws), number, ws) for number, ws in enumerate(self._room)
        ]
        heapq.heapify(self._heap)


class Mover:
    """Moves the only copies of results away from workers.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._takers = Takers(scheduler)

    async def move(
        self,
        workers: Sequence[WorkerState],
        fraction: float,
        stop: Callable[[], bool],
        *,
        drop: bool = True,
    ) -> str:
        """Let others fetch what only these workers hold, and wait until it is there.

        Parameters
        ----------
        workers
            They leave together.
        fraction
            The share of a worker's memory limit that results may fill.
        stop
            Tells whether to give up.
        drop
            Let them forget what has arrived elsewhere, which makes room to read again
            what they had written to disk.

        Returns
        -------
        str
            Why it cannot be done; empty once somebody who stays has everything, or
            when told to stop.
        """
        promises: dict[TaskState, _Promise] = {}
        # Keeps off the scheduler's rebalance and replicate, as its own retiring does.
        async with self._scheduler._replica_lock("retire-workers"):
            try:
                while not stop():
                    begin = perf_counter()
                    again = await self._look(workers, promises, drop)
                    if not promises and not again:
                        again = await only_copies(workers, Breather())
                        if not again:
                            return ""
                    why = await self._ask(again, promises, fraction)
                    if why:
                        return why
                    pause = 10 * (perf_counter() - begin)
                    await asyncio.sleep(min(max(SHORTEST_PAUSE, pause), LONGEST_PAUSE))
            finally:
                for promise in promises.values():
                    self._takers.settle(promise)
        return ""

    async def _look(
        self,
        workers: Sequence[WorkerState],
        promises: dict[TaskState, _Promise],
        drop: bool,
    ) -> list[TaskState]:
        """See what has arrived; return what has to be asked for again."""
        again, arrived = [], []
        breather = Breather()
        for number, (ts, promise) in enumerate(list(promises.items())):
            if not is_only_with(ts):
                arrived.append(ts)
            elif promise.is_void():
                again.append(ts)
            else:
                continue
            self._takers.settle(promises.pop(ts))
            if not number % STRIDE:
                await breather.breathe()
        if drop:
            self._drop(workers, arrived)
        return again

    def _drop(self, workers: Iterable[WorkerState], arrived: list[TaskState]) -> None:
        for ws in workers:
            keys = [
                ts.key for ts in arrived if ts in ws.has_what and not is_only_with(ts)
            ]
            if keys and self._scheduler.workers.get(ws.address) is ws:
                # A broken stream ends the worker; the rest follows from that.
                with contextlib.suppress(CommClosedError):
                    self._scheduler.request_remove_replicas(
                        ws.address, keys, stimulus_id=f"{STIMULUS}-{monotonic()}"
                    )

    async def _ask(
        self,
        tasks: Sequence[TaskState],
        promises: dict[TaskState, _Promise],
        fraction: float,
    ) -> str:
        """Let others fetch results; return why it cannot be done."""
        nbytes = sum(ts.nbytes for ts in tasks)
        if tasks and not self._scheduler.running:
            return NOBODY
        if tasks and not self._takers.room(fraction).fits(nbytes):
            size = format_bytes(nbytes)
            return f"{len(tasks)} key(s) with {size} have no room elsewhere"
        breather = Breather()
        for begin in range(0, len(tasks), STRIDE):
            wanted: defaultdict[WorkerState, list[Key]] = defaultdict(list)
            for ts in tasks[begin : begin + STRIDE]:
                if not is_only_with(ts):
                    continue
                taker = self._takers.pick(ts.nbytes, fraction)
                if taker is None:
                    return NOBODY
                promises[ts] = _Promise(taker, ts.nbytes, monotonic())
                wanted[taker].append(ts.key)
            for taker, keys in wanted.items():
                with contextlib.suppress(CommClosedError):
                    self._scheduler.request_acquire_replicas(
                        taker.address, keys, stimulus_id=f"{STIMULUS}-{monotonic()}"
                    )
            await breather.breathe()
        return ""
