"""A cluster's status as plain lines, for logs and pipes."""

from __future__ import annotations

from dask_fleet.view.records import Status, Summary, Tasks
from dask_fleet.view.text import clean, count


def status_line(status: Status) -> str:
    """Say in one line where a cluster is.

    Examples
    --------
    >>> print(status_line(Status(target=2, plan=2, requested=1)))
    target 2, plan 2, requested 1, observed 0 (manual)
    """
    parts = [f"{_workers(status)} ({status.scaling})"]
    if status.health != "ok":
        parts.append(status.health)
    if status.tasks is not None:
        parts.append(f"tasks: {_tasks(status.tasks)}")
    if status.sentence:
        parts.append(clean(status.sentence))
    return "; ".join(parts)


def summary_line(summary: Summary) -> str:
    """Say in one line what a run came to.

    Examples
    --------
    >>> print(summary_line(Summary(outcome="exit code 0", seconds=12.34, peak=4,
    ...                            worker_seconds=31.0, decisions=1)))
    exit code 0 after 12.3 s; peak 4 workers, 31.0 worker-seconds, 1 decision
    """
    return (
        f"{summary.outcome} after {summary.seconds:.1f} s; "
        f"peak {count(summary.peak, 'worker')}, "
        f"{summary.worker_seconds:.1f} worker-seconds, "
        f"{count(summary.decisions, 'decision')}"
    )


def _workers(status: Status) -> str:
    return (
        f"target {status.target}, plan {status.plan}, "
        f"requested {status.requested}, observed {status.observed}"
    )


def _tasks(tasks: Tasks) -> str:
    text = f"waiting {tasks.waiting}, running {tasks.running}, done {tasks.done}"
    return f"{text}, failed {tasks.failed}" if tasks.failed else text
