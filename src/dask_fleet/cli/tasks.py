"""How many tasks there are, asked of a scheduler in this process.

The scheduler keeps these counts by kind of task anyway, so asking costs a few
additions, however many tasks there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_fleet.view import Tasks

if TYPE_CHECKING:
    from distributed import Scheduler

    from dask_fleet.cluster import Cluster


#: States of tasks that no worker has been given.
UNREADY = ("waiting", "queued", "no-worker")


def count_tasks(cluster: Cluster) -> Tasks | None:
    """Count the tasks of a cluster; ``None`` if its scheduler is elsewhere."""
    from distributed import Scheduler

    scheduler = getattr(cluster, "scheduler", None)
    return count(scheduler) if isinstance(scheduler, Scheduler) else None


def count(scheduler: Scheduler) -> Tasks:
    """Count the tasks that a scheduler knows or has known."""
    kinds = scheduler.task_prefixes.values()
    given_out = sum(kind.states["processing"] for kind in kinds)
    # A worker is given a few more tasks than it has threads for.
    running = sum(
        min(len(worker.processing), worker.nthreads)
        for worker in scheduler.workers.values()
    )
    unready = sum(
        kind.states[state]
        for kind in kinds
        for state in ("waiting", "queued", "no-worker")
    )
    return Tasks(
        waiting=unready + given_out - running,
        running=running,
        done=sum(kind.state_counts["memory"] for kind in kinds),
        failed=sum(kind.state_counts["erred"] for kind in kinds),
    )
