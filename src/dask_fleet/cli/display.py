"""How a session is shown: a live block, plain lines, or errors only."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dask_fleet.cli import tty
from dask_fleet.cli.output import Output, standard_error
from dask_fleet.cli.terminal import TerminalBlock
from dask_fleet.view import Place, Status, Summary, block, status_line, summary_line
from dask_fleet.view.text import clean

PREFIX = "dask fleet: "

#: Plain lines come at most this often (seconds); what changes meanwhile is one change.
LINE_PAUSE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a display can show of a moment."""

    status: Status
    place: Place
    seconds: float
    hint: str = ""


class Display(Protocol):
    """Shows a session. All of it goes to standard error."""

    def open(self) -> None:
        """Begin, in the running event loop."""

    def show(self, view: View) -> None:
        """Show the present moment; called a few times a second, from a thread."""

    def notice(self, text: str) -> None:
        """Say something that must not be missed."""

    def close(self) -> None:
        """End showing moments."""

    def sum_up(self, summary: Summary) -> None:
        """Say what it all came to."""


class Quiet:
    """Only what must not be missed."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def open(self) -> None:
        """Nothing to do."""

    def show(self, view: View) -> None:
        """Nothing to do."""

    def notice(self, text: str) -> None:
        """Write one line."""
        self._output.write(f"{PREFIX}{clean(text)}\n")

    def close(self) -> None:
        """Nothing to do."""

    def sum_up(self, summary: Summary) -> None:
        """Nothing to do."""


class Lines(Quiet):
    """One line for each change of state.

    Parameters
    ----------
    output
        Where to.
    clock
        Seconds that never go back.
    """

    def __init__(
        self, output: Output, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(output)
        self._clock = clock
        self._place: Place | None = None
        self._state: object = None
        self._not_before = -float("inf")

    def show(self, view: View) -> None:
        """Write a line if the state has changed and the last line is old enough."""
        if view.place != self._place:
            self._place = view.place
            self.notice(_where(view.place))
        state = _state(view.status)
        now = self._clock()
        if state != self._state and now >= self._not_before:
            self._state = state
            self._not_before = now + LINE_PAUSE
            self.notice(status_line(_untold(view.status)))

    def sum_up(self, summary: Summary) -> None:
        """Write one line."""
        self.notice(summary_line(summary))


class Live:
    """A block at the bottom of the terminal.

    Parameters
    ----------
    terminal
        Keeps the block in its place.
    """

    def __init__(self, terminal: TerminalBlock) -> None:
        self._terminal = terminal

    def open(self) -> None:
        """Give the terminal back whenever Ctrl-Z stops us."""
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTSTP, self._stop)

    def _stop(self) -> None:
        self._terminal.stop()
        # Stopping has taken the handler away.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self._stop)

    def show(self, view: View) -> None:
        """Bring the block up to date."""
        self._terminal.show(
            lambda width, ascii_only: block(
                view.status,
                view.place,
                seconds=view.seconds,
                width=width,
                hint=view.hint,
                ascii_only=ascii_only,
            )
        )

    def notice(self, text: str) -> None:
        """Write one line above the block."""
        self._terminal.write(f"{PREFIX}{clean(text)}\n")

    def close(self) -> None:
        """Take the block away."""
        self._terminal.close()

    def sum_up(self, summary: Summary) -> None:
        """Write one line."""
        self.notice(summary_line(summary))


def choose(*, quiet: bool) -> Display:
    """Choose the display that fits standard error."""
    output = standard_error()
    if quiet:
        return Quiet(output)
    if output.fd is not None and tty.understands_sequences(output.fd):
        return Live(TerminalBlock(output, output.fd))
    return Lines(output)


def _where(place: Place) -> str:
    dashboard = f", dashboard {place.dashboard}" if place.dashboard else ""
    return f"scheduler {place.scheduler}{dashboard}"


def _untold(status: Status) -> Status:
    # Why nothing can be started comes as a notice of its own.
    return replace(status, sentence="") if status.health == "failed" else status


def _state(status: Status) -> object:
    # Without the tasks and the sentence: they change all the time.
    workers = (status.target, status.plan, status.requested, status.observed)
    return (status.scaling, status.health, workers)
