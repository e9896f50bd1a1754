"""Read what a choice needs from the scheduler's state, a little at a time.

The scheduler's event loop serves everybody; it is never held for longer than a few
milliseconds. In between the state moves on, so what is read is a picture with a small
exposure time. That does no harm: whoever is chosen is drained first, and a drain looks
at the worker itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from distributed import Scheduler
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

from dask_fleet.scheduler.breather import STRIDE, Breather
from dask_fleet.scheduler.copies import STAYING, Copies
from dask_fleet.scheduler.rank import Busyness, Candidate, Holders

#: So many candidates and shared results make a choice long.
LARGE = 5000


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
        Bytes of results that only candidates hold, several of them, by who.
    room
        Of each candidate, the room that it takes along.
    stays
        The room of all who are not about to leave, candidates among them, less the
        results that those who leave already have not handed over yet.
    keepers
        How many workers stay for sure and take new tasks.
    """

    candidates: list[Candidate] = field(default_factory=list)
    shared: dict[Holders, int] = field(default_factory=dict)
    room: list[Room] = field(default_factory=list)
    stays: Room = field(default_factory=Room)
    keepers: int = 0

    @property
    def is_large(self) -> bool:
        """Choosing from it takes more than a few milliseconds."""
        return len(self.candidates) + len(self.shared) > LARGE


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
    breather = Breather()
    # By address: a worker's own hash is slow.
    home = {
        ws.address: index for index, group in enumerate(groups) for ws in group.states
    }
    others = [ws for ws in scheduler.workers.values() if ws.address not in home]
    picture = Picture(
        stays=room_of(others, fraction) - await _on_their_way(others, breather),
        keepers=sum(ws.status is Status.running for ws in others),
    )
    copies = Copies(scheduler, [group.states for group in groups], home)
    await copies.count(breather)
    picture.shared = copies.shared
    for index, group in enumerate(groups):
        tasks = sum(len(ws.processing) for ws in group.states)
        busyness = busyness_of(group.states)
        picture.candidates.append(
            Candidate(group.names, busyness, copies.own[index], tasks)
        )
        picture.room.append(room_of(group.states, fraction))
        picture.stays += picture.room[-1]
    return picture


async def _on_their_way(others: Iterable[WorkerState], breather: Breather) -> Room:
    """Sum up what those who are leaving already have not handed over yet."""
    found: set[TaskState] = set()
    for ws in others:
        if ws.status not in STAYING:
            found.update(await only_copies([ws], breather))
    return Room(float(sum(ts.nbytes for ts in found)))


async def only_copies(
    workers: Iterable[WorkerState],
    breather: Breather,
    leaving: Container[WorkerState] = (),
) -> list[TaskState]:
    """Return the results of some workers that nobody who stays has.

    Parameters
    ----------
    workers
        Whose results.
    breather
        Gives the event loop its turns.
    leaving
        Who will not stay, besides those who are leaving already.
    """
    found: dict[TaskState, None] = {}
    for ws in workers:
        tasks = list(ws.has_what)
        for begin in range(0, len(tasks), STRIDE):
            for ts in tasks[begin : begin + STRIDE]:
                if is_only_with(ts, leaving):
                    found[ts] = None
            await breather.breathe()
    return list(found)


def is_only_with(ts: TaskState, leaving: Container[WorkerState] = ()) -> bool:
    """Whether a result is held, and by nobody who stays.

    Actors are left out: what is held of them besides themselves are handles.
    """
    holders = ts.who_has
    return (
        bool(holders)
        and not ts.actor
        and not any(ws.status in STAYING and ws not in leaving for ws in holders or ())
    )
