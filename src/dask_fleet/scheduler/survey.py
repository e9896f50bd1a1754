"""Read what a choice needs from the scheduler's state, a little at a time.

The scheduler's event loop serves everybody; it is never held for longer than a few
milliseconds. In between the state moves on, so what is read is a picture with a small
exposure time. That does no harm: whoever is chosen is drained first, and a drain looks
at the worker itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
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

#: A worker in one of these has not been told to leave.
STAYING = frozenset({Status.init, Status.running, Status.paused})


@dataclass(frozen=True, slots=True)
class Room:
    """What workers could still hold.

    Parameters
    ----------
    spare
        Bytes that those with a memory limit have left; below zero if they are too full.
    unlimited
        How many have no memory limit.

    Examples
    --------
    >>> (Room(100.0) + Room(-40.0)).fits(60), Room(-5.0).fits(0), Room(0.0, 1).fits(9)
    (True, True, True)
    """

    spare: float = 0.0
    unlimited: int = 0

    def __add__(self, other: Room) -> Room:
        return Room(self.spare + other.spare, self.unlimited + other.unlimited)

    def __sub__(self, other: Room) -> Room:
        return Room(self.spare - other.spare, self.unlimited - other.unlimited)

    def fits(self, nbytes: int) -> bool:
        """Whether so many more bytes find a place. Nothing always does."""
        return not nbytes or bool(self.unlimited) or self.spare >= nbytes


def room_of(workers: Iterable[WorkerState], fraction: float) -> Room:
    """Sum up the room for more results.

    Parameters
    ----------
    workers
        Those that are paused take nothing, and their results stay where they are.
    fraction
        The share of a worker's memory limit that results may fill.
    """
    spare, unlimited = 0.0, 0
    for ws in workers:
        if ws.status is not Status.running:
            continue
        if not ws.memory_limit or fraction == float("inf"):
            unlimited += 1
        else:
            spare += ws.memory_limit * fraction - ws.nbytes
    return Room(spare, unlimited)


@dataclass(slots=True)
class Picture:
    """What a choice is made from.

    Parameters
    ----------
    candidates
        Instances that may leave.
    shared
        Results that only candidates hold, several of them.
    keys
        Of each candidate, how many results only it holds.
    room
        Of each candidate, the room that it takes along.
    stays
        The room of all who are not about to leave, candidates among them, less the
        results that those who leave already have not handed over yet.
    keepers
        How many workers stay for sure and take new tasks.
    """

    candidates: list[Candidate] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    room: list[Room] = field(default_factory=list)
    stays: Room = field(default_factory=Room)
    keepers: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Instances that may leave, together.

    Parameters
    ----------
    names
        Names of all their workers.
    states
        Those of them that the scheduler has.
    """

    names: tuple[str, ...]
    states: tuple[WorkerState, ...]


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


def find(scheduler: Scheduler, name: str) -> WorkerState | None:
    """Return the worker of this name; ``3`` and ``"3"`` are one name."""
    address = scheduler.aliases.get(name)
    if address is None and name.isdecimal():
        address = scheduler.aliases.get(int(name))
    if address is None:
        return None
    ws = scheduler.workers.get(address)
    # An alias may also be an address, and "03" is not the name of worker 3.
    return ws if ws is not None and str(ws.name) == name else None


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
    spare: Callable[[WorkerState], str],
) -> tuple[list[Group], Counter[str]]:
    """Return the workers that may leave, in groups that leave together.

    Parameters
    ----------
    scheduler
        The scheduler.
    instances
        Names of workers, an instance each.
    worker_key
        Instances that have workers with the same key are one group.
    spare
        Says why a worker must not leave; empty if it may.

    Returns
    -------
    groups
        Only whole ones of workers that nobody wants to keep.
    kept
        How many workers must not leave, by the reason.
    """
    downscalable = [ws for ws in scheduler.workers.values() if ws.status in STAYING]
    for plugin in list(scheduler.plugins.values()):
        downscalable = plugin.valid_workers_downscaling(scheduler, downscalable)
    may_leave = set(downscalable)
    kept: Counter[str] = Counter()
    groups = []
    for group in _merged(scheduler, instances, worker_key):
        reasons = [
            why
            for ws in group.states
            if (why := spare(ws) or ("" if ws in may_leave else "a plugin keeps it"))
        ]
        if reasons:
            kept[reasons[0]] += len(group.names)
        elif group.states:
            groups.append(group)
    return groups, kept


def _merged(
    scheduler: Scheduler,
    instances: Sequence[Sequence[str]],
    worker_key: Callable[[WorkerState], Hashable] | None,
) -> list[Group]:
    """Merge instances that have workers with the same key."""
    heads: dict[Hashable, int] = {}
    #: Of each instance the one that it is merged into, its own position at the end.
    into = list(range(len(instances)))
    found = []
    for index, names in enumerate(instances):
        states = [ws for name in names if (ws := find(scheduler, name)) is not None]
        found.append([ws for ws in states if ws.status in STAYING])
        if worker_key is not None:
            for key in {worker_key(ws) for ws in found[index]}:
                into[_end(into, index)] = _end(into, heads.setdefault(key, index))
    merged: dict[int, tuple[list[str], list[WorkerState]]] = {}
    for index, names in enumerate(instances):
        all_names, all_states = merged.setdefault(_end(into, index), ([], []))
        all_names.extend(names)
        all_states.extend(found[index])
    return [Group(tuple(names), tuple(states)) for names, states in merged.values()]


def _end(into: list[int], index: int) -> int:
    while into[index] != index:
        index = into[index]
    return index


async def take(
    scheduler: Scheduler, groups: Sequence[Group], fraction: float
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
    home = {ws: index for index, group in enumerate(groups) for ws in group.states}
    picture = Picture()
    breather = Breather()
    await _look_at_the_others(scheduler, home, fraction, picture, breather)
    shared: defaultdict[frozenset[int], list[int]] = defaultdict(lambda: [0, 0])
    for group in groups:
        own, keys = 0, 0
        for ws in group.states:
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
                        # Counted once, though several workers of the group have it.
                        if _first_in(ts, home) is ws:
                            own += ts.nbytes
                            keys += 1
                    elif holders and _first_in(ts, home) is ws:
                        entry = shared[holders]
                        entry[0] += ts.nbytes
                        entry[1] += 1
                await breather.breathe()
        picture.candidates.append(
            Candidate(
                group.names,
                busyness_of(group.states),
                own,
                sum(len(ws.processing) for ws in group.states),
            )
        )
        picture.keys.append(keys)
        picture.room.append(room_of(group.states, fraction))
        picture.stays += picture.room[-1]
        await breather.breathe()
    picture.shared = [
        Shared(nbytes, holders, keys) for holders, (nbytes, keys) in shared.items()
    ]
    return picture


async def _look_at_the_others(
    scheduler: Scheduler,
    home: dict[WorkerState, int],
    fraction: float,
    picture: Picture,
    breather: Breather,
) -> None:
    """Look at those who stay for sure and at those who are leaving already."""
    others = [ws for ws in scheduler.workers.values() if ws not in home]
    picture.stays = room_of(others, fraction)
    picture.keepers = sum(ws.status is Status.running for ws in others)
    on_their_way: set[TaskState] = set()
    for ws in others:
        if ws.status in STAYING:
            continue
        for number, ts in enumerate(list(ws.has_what)):
            if not any(holder.status in STAYING for holder in ts.who_has or ()):
                on_their_way.add(ts)
            if not number % STRIDE:
                await breather.breathe()
    picture.stays -= Room(float(sum(ts.nbytes for ts in on_their_way)))


def _only_holders(ts: TaskState, home: dict[WorkerState, int]) -> frozenset[int]:
    """Return the groups that hold a result; none if somebody who stays has it.

    Holders that are about to leave already do not count: nobody should rely on them.
    """
    holders = set()
    for ws in ts.who_has or ():
        if ws in home:
            holders.add(home[ws])
        elif ws.status in STAYING:
            return frozenset()
    return frozenset(holders)


def _first_in(ts: TaskState, home: dict[WorkerState, int]) -> WorkerState | None:
    """Return one of the candidates' workers that hold a result, always the same."""
    return next((ws for ws in ts.who_has or () if ws in home), None)
