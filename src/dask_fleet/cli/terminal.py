"""A block that stays at the bottom of the terminal while others write above it."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from dask_fleet.cli import screen, tty
from dask_fleet.cli.output import Output

#: Below this size the block would leave too little to the command.
SMALLEST = os.terminal_size((24, 10))

Draw = Callable[[int, bool], Sequence[Text]]


class TerminalBlock:
    """Keeps a block on a terminal.

    It steps aside while the terminal is not its own: in the background, or when the
    command has taken the keyboard (an editor, a pager, a prompt with line editing).

    Parameters
    ----------
    output
        The stream that leads to the terminal.
    fd
        Its file descriptor.
    """

    def __init__(self, output: Output, fd: int) -> None:
        self._output = output
        self._fd = fd
        # Painted from a thread, so that a terminal that was stopped with Ctrl-S does
        # not stop the scheduler; hidden from the event loop.
        self._lock = threading.Lock()
        self._shown: tuple[tuple[str, ...], os.terminal_size] | None = None

    def show(self, draw: Draw) -> None:
        """Bring the block up to date.

        Parameters
        ----------
        draw
            Gives the lines for a width, and for whether only ASCII may be used.
        """
        with self._lock:
            size = tty.size(self._fd)
            small = size.columns < SMALLEST.columns or size.lines < SMALLEST.lines
            if small or not tty.may_draw(self._fd):
                self._hide()
                return
            now = (tuple(self._render(draw, size.columns)), size)
            if now != self._shown:
                self._output.write(screen.paint(now[0], size.lines))
                self._shown = now

    def write(self, text: str) -> None:
        """Write above the block."""
        with self._lock:
            self._output.write(text)

    def close(self) -> None:
        """Take the block away; the cursor is at the start of a line then."""
        with self._lock:
            self._hide()
            columns = tty.size(self._fd).columns
            if columns and tty.may_draw(self._fd):
                self._output.write(screen.fresh_line(columns))

    def stop(self) -> None:
        """Give the terminal back and stop, as Ctrl-Z asks; until we are continued.

        By the signal's own way of stopping, which does nothing where no shell could
        continue us.
        """
        with self._lock:
            self._hide()
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTSTP)

    def _hide(self) -> None:
        if self._shown is not None:
            lines, _ = self._shown
            self._output.write(screen.erase(len(lines), tty.size(self._fd).lines))
            self._shown = None

    def _render(self, draw: Draw, width: int) -> Iterator[str]:
        console = Console(file=io.StringIO(), force_terminal=True, width=width)
        for line in draw(width, self._output.ascii_only):
            with console.capture() as capture:
                console.print(line, end="", no_wrap=True, overflow="crop")
            yield capture.get()
