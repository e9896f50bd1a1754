"""The block's control sequences on a terminal."""

import pytest

from dask_fleet.cli import screen
from tests.cli.emulator import Emulator

BLOCK = ("== block", "== end")


@pytest.fixture
def terminal() -> Emulator:
    return Emulator(columns=10, rows=6)


def test_output_scrolls_above_the_block(terminal: Emulator) -> None:
    """1. Write a line. 2. Paint. 3. Write more than fits. The block stays."""
    terminal.feed("zero\r\n")
    terminal.feed(screen.paint(BLOCK, 6))
    assert terminal.lines == ["zero", "", "", "", *BLOCK]
    terminal.feed("one\r\ntwo\r\nthree\r\nfour\r\nfi")
    assert terminal.lines == ["two", "three", "four", "fi", *BLOCK]
    assert terminal.history == ["zero", "one"]
    terminal.feed("ve\r\n")
    assert terminal.lines == ["three", "four", "five", "", *BLOCK]


@pytest.mark.parametrize("lines", range(7))
def test_painting_keeps_the_cursor_behind_the_text(
    terminal: Emulator, lines: int
) -> None:
    """Wherever the cursor is: room is made, nothing is lost, half lines go on."""
    text = [f"line {n}" for n in range(lines)]
    terminal.feed("\r\n".join([*text, "half"]))
    terminal.feed(screen.paint(BLOCK, 6))
    terminal.feed(" done")
    seen = [*terminal.history, *terminal.lines]
    assert [line for line in seen if line] == [*text, "half done", *BLOCK]


def test_painting_again_changes_nothing(terminal: Emulator) -> None:
    terminal.feed("a\r\nb\r\nc\r\nd\r\ne\r\nf\r\n")
    terminal.feed(screen.paint(BLOCK, 6))
    before = (terminal.lines, terminal.history[:], terminal.cursor)
    terminal.feed(screen.paint(BLOCK, 6))
    assert (terminal.lines, terminal.history, terminal.cursor) == before


def test_painting_repairs_a_screen_that_was_reset(terminal: Emulator) -> None:
    """1. Paint. 2. Another program resets the margins and scrolls. 3. Paint."""
    terminal.feed(screen.paint(BLOCK, 6))
    terminal.feed("\x1b[r\x1b[6;1Hlast\r\n")
    terminal.feed(screen.paint(BLOCK, 6))
    terminal.feed("more")
    assert terminal.margins == (0, 3)
    assert terminal.lines[-3:] == ["more", *BLOCK]


def test_erasing_gives_the_screen_back(terminal: Emulator) -> None:
    terminal.feed("text\r\n" + screen.paint(BLOCK, 6))
    terminal.feed(screen.erase(len(BLOCK), 6))
    assert terminal.lines == ["text", "", "", "", "", ""]
    assert terminal.margins == (0, 5)
    assert terminal.cursor == (1, 0)


@pytest.mark.parametrize(("before", "row"), [("", 0), ("x", 1), ("123456789", 1)])
def test_fresh_line(terminal: Emulator, before: str, row: int) -> None:
    terminal.feed("\x1b[5;1Hold block\x1b[1;1H" + before + screen.fresh_line(10))
    assert terminal.cursor == (row, 0)
    assert terminal.lines == [before, "", "", "", "", ""]
