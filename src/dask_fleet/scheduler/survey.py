"""Read what a choice needs from the scheduler's state, a little at a time.

The scheduler's event loop serves everybody; it is never held for longer than a few
milliseconds. In between the state moves on, so what is read is a picture with a small
exposure time. That does no harm: whoever is chosen is drained first, and a drain looks
at the worker itself.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from distributed import Scheduler
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

from dask_fleet.scheduler.rank import Busyness, Candidate, Shared

#: The event loop is given back after so many seconds of work.
SLICE = 0.01

#: So many keys are looked at between two looks at the clock.
STRIDE = 2000


@dataclass(slots=True)
class Picture:
    """What a choice is made from.

    Parameters
    ----------
    candidates
        Instances that may leave.
    shared
        Results that only candidates hold, several of them.
    capacity
        Bytes of results that those may hold who stay for sure; infinite if one of them
        has no limit.
    used
        Bytes of results that they hold.
    room
        Of each candidate, the bytes of results that it may hold.
    keys
        Of each candidate, how many results only it holds.
    """

    candidates: list[Candidate] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)
    capacity: float = 0.0
    used: float = 0.0
    room: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)


class Breather:
    """Gives the event loop back whenever a slice of time is used up."""

    def __init__(self, length: float = SLICE) -> None:
        self._length = length
        self._end = perf_counter() + length

    async def breathe(self) -> None:
        """Give the loop a turn, if it is time."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + self._length


def by_name(scheduler: Scheduler) -> dict[str, WorkerState]:
    """Return the workers by their names; ``3`` and ``"3"`` are one name."""
    return {str(ws.name): ws for ws in scheduler.workers.values()}


def busyness_of(states: Iterable[WorkerState]) -> Busyness:
    """Return the class of an instance with these workers."""
    busyness = Busyness.IDLE
    for ws in states:
        if ws.actors or ws.long_running:
            return Busyness.PINNED
        if ws.processing:
            busyness = Busyness.BUSY
    return busyness


def groups_of(
    scheduler: Scheduler,
    instances: Sequence[Sequence[str]],
    worker_key: Callable[[WorkerState], Hashable] | None,
) -> list[list[WorkerState]]:
    """Return the workers that may leave, in groups that leave together.

    Parameters
    ----------
    scheduler
        The scheduler.
    instances
        Names of workers, an instance each.
    worker_key
        Instances with a worker of the same key are one group.

    Returns
    -------
    list
        Only whole groups of running workers that no plugin wants to keep.
    """
    known = by_name(scheduler)
    allowed = [ws for ws in known.values() if ws.status is Status.running]
    for plugin in list(scheduler.plugins.values()):
        allowed = plugin.valid_workers_downscaling(scheduler, allowed)
    may_leave = set(allowed)
    merged: dict[Hashable, list[WorkerState]] = {}
    spoiled: set[Hashable] = set()
    for names in instances:
        states = [known[name] for name in names if name in known]
        if not states:
            continue
        key: Hashable = names[0] if worker_key is None else worker_key(states[0])
        merged.setdefault(key, []).extend(states)
        if not may_leave.issuperset(states):
            spoiled.add(key)
    return [group for key, group in merged.items() if key not in spoiled]


async def take(
    scheduler: Scheduler, groups: list[list[WorkerState]], fraction: float
) -> Picture:
    """Take the picture.

    Parameters
    ----------
    scheduler
        The scheduler.
    groups
        Workers that leave together, from :func:`groups_of`.
    fraction
        The share of a worker's memory limit that results may fill.
    """
    home = {ws: index for index, group in enumerate(groups) for ws in group}
    picture = Picture()
    _measure_those_who_stay(scheduler, home, fraction, picture)
    breather = Breather()
    shared: defaultdict[frozenset[int], int] = defaultdict(int)
    for index, group in enumerate(groups):
        own, keys = 0, 0
        for ws in group:
            tasks = list(ws.has_what)
            for begin in range(0, len(tasks), STRIDE):
                for ts in tasks[begin : begin + STRIDE]:
                    # The common case first: this worker holds the only copy.
                    if len(ts.who_has or ()) == 1:
                        own += ts.nbytes
                        keys += 1
                        continue
                    holders = _only_holders(ts, home)
                    if len(holders) == 1:
                        own += ts.nbytes
                        keys += 1
                    elif holders and min(holders) == index:
                        shared[holders] += ts.nbytes
                await breather.breathe()
        picture.candidates.append(
            Candidate(tuple(str(ws.name) for ws in group), busyness_of(group), own)
        )
        picture.keys.append(keys)
        picture.room.append(sum(_room(ws, fraction) for ws in group))
        picture.held.append(float(sum(ws.nbytes for ws in group)))
        await breather.breathe()
    picture.shared = [Shared(nbytes, holders) for holders, nbytes in shared.items()]
    return picture


def _measure_those_who_stay(
    scheduler: Scheduler,
    home: dict[WorkerState, int],
    fraction: float,
    picture: Picture,
) -> None:
    for ws in scheduler.running:
        if ws not in home:
            picture.capacity += _room(ws, fraction)
            picture.used += ws.nbytes


def _room(ws: WorkerState, fraction: float) -> float:
    """Bytes of results that a worker may hold."""
    return ws.memory_limit * fraction if ws.memory_limit else float("inf")


def _only_holders(ts: TaskState, home: dict[WorkerState, int]) -> frozenset[int]:
    """Return the groups that hold a result; none if somebody who stays has it.

    Holders that are about to leave already do not count: nobody should rely on them.
    """
    holders = set()
    for ws in ts.who_has or ():
        if ws in home:
            holders.add(home[ws])
        elif ws.status is Status.running:
            return frozenset()
    return frozenset(holders)
