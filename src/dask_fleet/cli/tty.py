"""Questions to the terminal: is there one, whose is it, who reads the keys."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def controlling_terminal() -> Iterator[int | None]:
    """Open the controlling terminal; ``None`` if there is none."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    with controlling_terminal() as fd:
        return fd is not None


def in_foreground(fd: int) -> bool:
    """Whether the keys typed at a terminal signal this process's group."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def reads_lines(fd: int) -> bool:
    """Whether a terminal collects whole lines, so that nobody reads single keys.

    Editors, pagers and prompts with line editing switch that off while they read.
    """
    import termios

    try:
        local_modes: int = termios.tcgetattr(fd)[3]
    except (OSError, termios.error):
        return False
    return bool(local_modes & termios.ICANON)


def may_draw(fd: int) -> bool:
    """Whether a terminal is free for us to draw on.

    A terminal that is not the controlling one has no background to be in.
    """
    try:
        background = os.tcgetpgrp(fd) != os.getpgrp()
    except OSError:
        background = False
    return reads_lines(fd) and not background


def understands_sequences(fd: int) -> bool:
    """Whether a file descriptor is a terminal that can keep a block in place."""
    if os.name != "posix" or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return os.isatty(fd)


def size(fd: int) -> os.terminal_size:
    """Columns and lines of a terminal; none at all once it is gone."""
    try:
        return os.get_terminal_size(fd)
    except OSError:
        return os.terminal_size((0, 0))
