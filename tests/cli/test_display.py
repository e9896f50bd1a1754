"""What is said when, without a terminal."""

import io

import pytest

from dask_fleet.cli.display import Lines, Quiet, View, choose
from dask_fleet.cli.output import Output
from dask_fleet.view import Place, Status, Summary, Tasks

PLACE = Place(scheduler="tcp://127.0.0.1:1", dashboard="http://127.0.0.1:2/status")
SUMMARY = Summary(
    outcome="exit code 0", seconds=1, peak=2, worker_seconds=2, decisions=3
)


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def view(observed: int, *, done: int = 0, sentence: str = "") -> View:
    status = Status(
        target=4,
        plan=4,
        requested=4,
        observed=observed,
        sentence=sentence,
        tasks=Tasks(done=done),
    )
    return View(status=status, place=PLACE, seconds=0.0)


def test_one_line_for_each_change_of_state() -> None:
    """Tasks and sentences alone are no change; quick changes are one."""
    stream, clock = io.StringIO(), Clock()
    lines = Lines(Output(stream), clock)
    moments = [
        (0.0, view(0, sentence="asked for 4 workers")),
        (0.2, view(0, done=5)),
        (0.4, view(1)),
        (0.6, view(2)),
        (1.2, view(3, done=7)),
        (1.4, view(4)),
        (1.6, view(4, sentence="later")),
        (2.4, view(4, done=9, sentence="later")),
        (9.9, view(4, done=99, sentence="later still")),
    ]
    for clock.now, moment in moments:
        lines.show(moment)
    assert stream.getvalue() == (
        "dask fleet: scheduler tcp://127.0.0.1:1, dashboard http://127.0.0.1:2/status\n"
        "dask fleet: target 4, plan 4, requested 4, observed 0 (manual); "
        "tasks: waiting 0, running 0, done 0; asked for 4 workers\n"
        "dask fleet: target 4, plan 4, requested 4, observed 3 (manual); "
        "tasks: waiting 0, running 0, done 7\n"
        "dask fleet: target 4, plan 4, requested 4, observed 4 (manual); "
        "tasks: waiting 0, running 0, done 9; later\n"
    )


def test_quiet_says_only_what_must_not_be_missed() -> None:
    stream = io.StringIO()
    quiet = Quiet(Output(stream))
    quiet.open()
    quiet.show(view(0))
    quiet.notice("workers cannot be started:\n quota")
    quiet.close()
    quiet.sum_up(SUMMARY)
    assert stream.getvalue() == "dask fleet: workers cannot be started: quota\n"


def test_summary_of_lines() -> None:
    stream = io.StringIO()
    Lines(Output(stream)).sum_up(SUMMARY)
    assert stream.getvalue() == (
        "dask fleet: exit code 0 after 1.0 s; "
        "peak 2 workers, 2.0 worker-seconds, 3 decisions\n"
    )


def test_choice_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert type(choose(quiet=False)) is Lines
    assert type(choose(quiet=True)) is Quiet
