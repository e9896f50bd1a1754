"""The block, as a whole text."""

import io

import pytest
from rich.console import Console

from dask_fleet.view import HEIGHT, Place, Status, Tasks, block

PLACE = Place(scheduler="tcp://127.0.0.1:1", dashboard="http://127.0.0.1:8787/status")
GROWING = Status(
    mode="adaptive",
    minimum=0,
    maximum=4,
    target=4,
    plan=4,
    requested=3,
    observed=2,
    sentence="the adaptive target went from 0 to 4 workers",
    tasks=Tasks(waiting=120, running=2, done=33),
)


def drawn(
    status: Status, width: int, *, hint: str = "", ascii_only: bool = False
) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    lines = block(
        status, PLACE, seconds=75.2, width=width, hint=hint, ascii_only=ascii_only
    )
    assert len(lines) == HEIGHT
    assert all(line.cell_len <= width for line in lines)
    for line in lines:
        console.print(line, no_wrap=True)
    return console.export_text()


def test_growing() -> None:
    assert drawn(GROWING, 76) == (
        "── dask fleet  adaptive 0:4  http://127.0.0.1:8787/status ──── 1 min 15 s ──\n"
        "workers  target 4  plan 4  requested 3  observed 2\n"
        "tasks    waiting 120  running 2  done 33\n"
        "why      the adaptive target went from 0 to 4 workers\n"
    )


def test_failed_in_ascii() -> None:
    status = Status(
        target=2,
        plan=2,
        health="failed",
        sentence="no more starts after 3 failed rounds; last: quota\nexceeded",
        tasks=Tasks(failed=1),
    )
    assert drawn(status, 60, ascii_only=True) == (
        "-- dask fleet  manual  failed ---------------- 1 min 15 s --\n"
        "workers  target 2  plan 2  requested 0  observed 0\n"
        "tasks    waiting 0  running 0  done 0  failed 1\n"
        "why      no more starts after 3 failed rounds; last: quot...\n"
    )


def test_unknown_tasks_and_a_hint() -> None:
    assert drawn(Status(sentence="closed"), 44, hint="Ctrl-C again now") == (
        "── dask fleet  manual ──────── 1 min 15 s ──\n"
        "workers  target 0  plan 0  requested 0  obs…\n"
        "tasks    not known\n"
        "why      Ctrl-C again now\n"
    )


@pytest.mark.parametrize("width", [1, 2, 10, 24, 40, 79, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_width(width: int, ascii_only: bool) -> None:
    text = drawn(GROWING, width, ascii_only=ascii_only)
    assert text.isascii() is ascii_only
