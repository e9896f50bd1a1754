"""Control sequences that keep a block at the bottom of a terminal.

The lines above the block are made the scrolling region (as ``apt`` does). Whatever
other programs write then scrolls there by itself, straight from them to the terminal,
and nobody has to read and repeat it.

Each painting sets up everything anew, in one write. So nothing has to be remembered
about the terminal, and a resize or a program that reset the screen is put right by the
next painting.
"""

from __future__ import annotations

from collections.abc import Sequence

SAVE, RESTORE = "\x1b7", "\x1b8"
WHOLE_SCREEN = "\x1b[r"
#: One line down in the same column; scrolls at the bottom.
INDEX = "\x1bD"
PLAIN = "\x1b[0m"


def paint(lines: Sequence[str], rows: int) -> str:
    """Draw lines at the bottom of a screen of so many rows.

    The cursor ends where it was, or higher if it stood where the block is now: then
    what was there has scrolled up with it.
    """
    height = len(lines)
    top = rows - height
    # Moving the margins moves the cursor, hence the saving around them.
    room = f"{SAVE}{WHOLE_SCREEN}{RESTORE}{INDEX * height}\x1b[{height}A"
    drawn = "".join(
        f"\x1b[{row};1H\x1b[2K{line}{PLAIN}" for row, line in enumerate(lines, top + 1)
    )
    return f"{room}{SAVE}\x1b[1;{top}r{PLAIN}{drawn}{RESTORE}"


def erase(height: int, rows: int) -> str:
    """Take a block away and give the whole screen back."""
    row = max(1, rows - height + 1)
    return f"{SAVE}{WHOLE_SCREEN}\x1b[{row};1H{PLAIN}\x1b[J{RESTORE}"


def fresh_line(columns: int) -> str:
    """Go to the start of a line, the next one if something stands before the cursor.

    A full row of blanks wraps unless the cursor was at the very start: there it only
    fills the row, since terminals wrap when one more character comes. What is below is
    cleared: a pager that ended brings an old block back with the screen that it saved.
    """
    return f"{PLAIN}{' ' * columns}\r\x1b[J"
