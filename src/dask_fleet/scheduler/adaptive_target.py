"""For how many workers there is work: the default adaptive policy.

It starts from the same figures as the scheduler's own ``adaptive_target`` and puts
right what leaves a cluster stuck or makes it grow for nothing:

- tasks that need a resource or a host which no worker of this cluster has are no work
  that more workers could do; they are named instead;
- waiting tasks always get at least one worker;
- memory asks for as many workers as hold the data, and not for twice as many each time;
- a cluster is not shrunk below the workers that are at work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from dask.utils import format_bytes, format_time
from distributed import Scheduler
from distributed.core import Status
from distributed.scheduler import TaskPrefix, TaskState

#: The mean duration of waiting tasks is taken from so many of them.
SAMPLE = 100

#: Of a kind of task that was never seen, so many get a thread each at once: people do
#: not ask a cluster for a few short tasks, and waiting to see would double their time.
EAGER = 8

#: Memory asks for more workers above this share of the limit.
MEMORY_SHARE = 0.6

#: So many tasks that cannot run are named.
NAMED = 3


@dataclass(slots=True)
class Demand:
    """What there is to do.

    Parameters
    ----------
    tasks
        Tasks that run, or could run now if there were a free thread.
    seconds
        The work in them, in seconds of one thread.
    unknown
        How many of the tasks are of a kind that was never seen.
    impossible
        Tasks that no worker of this cluster can run: key and what it needs.
    used
        Bytes of results in memory.
    busy
        Workers at work.
    """

    tasks: int = 0
    seconds: float = 0.0
    unknown: int = 0
    impossible: list[tuple[str, str]] = field(default_factory=list)
    used: int = 0
    busy: int = 0


def demand_on(scheduler: Scheduler, offer: Mapping[str, float]) -> Demand:
    """Read from the scheduler what there is to do.

    Parameters
    ----------
    scheduler
        The scheduler.
    offer
        Resources of each worker of this cluster.
    """
    demand = Demand()
    waiting = len(scheduler.queued)
    possible: list[TaskState] = []
    for ts in scheduler.unrunnable:
        need = _missing(ts, offer)
        if need:
            demand.impossible.append((str(ts.key), need))
        else:
            possible.append(ts)
    waiting += len(possible)
    sample = list(islice(chain(scheduler.queued, possible), SAMPLE))
    if sample:
        seconds = sum(scheduler._get_prefix_duration(ts.prefix) for ts in sample)
        demand.seconds += seconds * waiting / len(sample)
        unknown = sum(_is_unknown(ts.prefix) for ts in sample)
        demand.unknown += unknown * waiting // len(sample)
    demand.seconds += scheduler.total_occupancy
    for name, count in scheduler._task_prefix_count_global.items():
        if _is_unknown(scheduler.task_prefixes[name]):
            demand.unknown += count
    running = 0
    for ws in scheduler.workers.values():
        running += len(ws.processing)
        demand.used += ws.nbytes
        demand.busy += (
            bool(ws.processing) and ws.status is not Status.closing_gracefully
        )
    demand.tasks = waiting + running
    return demand


def _is_unknown(prefix: TaskPrefix) -> bool:
    """Whether nothing is known of how long such tasks take."""
    return prefix.duration_average < 0 and prefix.max_exec_time <= 0


def _missing(ts: TaskState, offer: Mapping[str, float]) -> str:
    """Say what a task needs that more workers of this cluster would not have."""
    for resource, amount in (ts.resource_restrictions or {}).items():
        if offer.get(resource, 0) < amount:
            return f"resource {resource}: {amount:g}"
    if ts.host_restrictions and not ts.loose_restrictions:
        return f"host {', '.join(sorted(map(str, ts.host_restrictions)))}"
    if ts.worker_restrictions and not ts.loose_restrictions:
        return f"worker {', '.join(sorted(map(str, ts.worker_restrictions)))}"
    return ""


def workers_for(
    demand: Demand,
    duration: float,
    threads_each: int,
    memory_each: int | None,
) -> tuple[int, str]:
    """Say how many workers a demand is worth, and why. Pure.

    Parameters
    ----------
    demand
        What there is to do.
    duration
        Seconds that it should take.
    threads_each
        Threads of a worker.
    memory_each
        Memory limit of a worker in bytes; ``None`` if it has none.

    Returns
    -------
    tuple
        Workers, and what asked for them in a few words.

    Examples
    --------
    >>> workers_for(Demand(tasks=200, seconds=20.0), 5.0, 1, None)
    (4, '200 tasks, about 20.00 s of work')
    >>> workers_for(Demand(tasks=3, seconds=900.0), 5.0, 1, None)[0]
    3
    >>> workers_for(Demand(tasks=3, seconds=1.5, unknown=3), 5.0, 1, None)[0]
    3
    >>> workers_for(Demand(used=100, busy=1), 5.0, 1, 50)
    (4, '100 B of results')
    """
    threads = max(math.ceil(demand.seconds / duration), min(demand.unknown, EAGER))
    threads = min(threads, demand.tasks)
    for_work = math.ceil(threads / threads_each)
    if demand.tasks or demand.impossible:
        for_work = max(1, for_work)
    for_memory = 1 if demand.used else 0
    if demand.used and memory_each:
        for_memory = math.ceil(demand.used / (MEMORY_SHARE * memory_each))
    most = max(for_work, for_memory, demand.busy)
    if most and most == for_memory and for_memory > for_work:
        return most, f"{format_bytes(demand.used)} of results"
    if most and most == demand.busy and demand.busy > for_work:
        return most, f"{demand.busy} workers at work"
    if not demand.tasks:
        return most, "no tasks" if not demand.impossible else "tasks that cannot run"
    return most, f"{demand.tasks} tasks, about {format_time(demand.seconds)} of work"


def adaptive_target(
    scheduler: Scheduler,
    duration: float,
    offer: Mapping[str, float],
    threads_each: int | None,
    memory_each: int | None,
) -> dict[str, Any]:
    """Say how many workers should exist.

    Parameters
    ----------
    scheduler
        The scheduler.
    duration
        Seconds that a computation should take.
    offer
        Resources of each worker of this cluster.
    threads_each, memory_each
        Of each worker of this cluster; ``None`` if not known: then those of the
        workers that are there count.

    Returns
    -------
    dict
        ``target``, ``why``, and ``impossible``: a sentence about tasks that no worker
        of this cluster can run, or empty.
    """
    demand = demand_on(scheduler, offer)
    states = list(scheduler.workers.values())
    threads = threads_each or _mean(ws.nthreads for ws in states) or 1
    memory = memory_each or _mean(ws.memory_limit for ws in states) or None
    target, why = workers_for(demand, duration, int(threads), memory)
    return {"target": target, "why": why, "impossible": _told(demand, offer)}


def _mean(numbers: Iterable[int]) -> int:
    values = list(numbers)
    return sum(values) // len(values) if values else 0


def _told(demand: Demand, offer: Mapping[str, float]) -> str:
    if not demand.impossible:
        return ""
    named = "; ".join(f"{key} needs {need}" for key, need in demand.impossible[:NAMED])
    more = len(demand.impossible) - NAMED
    if more > 0:
        named += f"; and {more} more"
    has = ", ".join(f"{name}: {amount:g}" for name, amount in offer.items())
    return f"{named}. A worker here offers {has or 'no resources'}"
