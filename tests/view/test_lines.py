"""Plain lines, as whole texts."""

from dask_fleet.view import Status, Summary, Tasks, status_line, summary_line


def test_everything_at_once() -> None:
    status = Status(
        mode="adaptive",
        minimum=1,
        target=4,
        plan=4,
        requested=3,
        observed=2,
        health="degraded",
        sentence="a start failed (refused): quota\nexceeded",
        tasks=Tasks(waiting=5, running=2, done=3, failed=1),
    )
    assert status_line(status) == (
        "target 4, plan 4, requested 3, observed 2 (adaptive 1:); degraded; "
        "tasks: waiting 5, running 2, done 3, failed 1; "
        "a start failed (refused): quota exceeded"
    )


def test_summary() -> None:
    summary = Summary(
        outcome="ended by SIGINT", seconds=61.25, peak=1, worker_seconds=0, decisions=12
    )
    assert summary_line(summary) == (
        "ended by SIGINT after 61.2 s; peak 1 worker, 0.0 worker-seconds, 12 decisions"
    )
