"""Signals: who gets them, and when a Ctrl-C becomes a hard end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from enum import Enum

from dask_fleet.cli import tty

#: What is passed on to a command; Windows has fewer.
PASSED_ON = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
)

#: A second Ctrl-C ends the command hard if it comes within so many seconds of the
#: first. Without a limit, an interactive session that is interrupted now and then
#: would be lost at the second time.
HARD_WITHIN = 3.0

#: The same signal twice within so many seconds is one: ``timeout`` and some job runners
#: signal both the process and its group.
SAME_WITHIN = 0.2


class Verdict(Enum):
    """What to do with a signal."""

    PASS = "pass it on"
    SAME = "the same one once more"
    KILL = "end the command hard"


class Presses:
    """Tells a first signal from its echo and from a second Ctrl-C.

    Examples
    --------
    >>> presses = Presses()
    >>> [presses.judge(signal.SIGINT, now).name for now in (10.0, 10.1, 12.0, 20.0)]
    ['PASS', 'SAME', 'KILL', 'PASS']
    """

    def __init__(self) -> None:
        self._last: dict[int, float] = {}

    def judge(self, signum: int, now: float) -> Verdict:
        """Judge a signal that came at ``now`` (seconds, never going back)."""
        since = now - self._last.get(signum, -float("inf"))
        if since < SAME_WITHIN:
            return Verdict.SAME
        self._last[signum] = now
        if signum == signal.SIGINT and since < HARD_WITHIN:
            return Verdict.KILL
        return Verdict.PASS

    def hint(self, now: float) -> str:
        """Say what another Ctrl-C would do; empty when nothing special."""
        if now - self._last.get(signal.SIGINT, -float("inf")) < HARD_WITHIN:
            return "interrupted; Ctrl-C again now ends the command hard"
        return ""


class Signals:
    """Hands each signal to one receiver, which changes as the session goes on.

    Signals that are ignored when we start (``nohup``) stay ignored, for the command
    too. The handlers go away with the event loop.

    Parameters
    ----------
    receiver
        Called in the event loop with the number of the signal.
    """

    def __init__(self, receiver: Callable[[int], None]) -> None:
        self.receiver = receiver
        self.first: int | None = None

    def listen(self) -> None:
        """Begin to listen, in the running event loop."""
        loop = asyncio.get_running_loop()
        for signum in PASSED_ON:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                # Windows has no such handlers: there, Ctrl-C cancels the session.
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(signum, self._heard, signum)

    def _heard(self, signum: int) -> None:
        if self.first is None:
            self.first = signum
        self.receiver(signum)


def typed(signum: int) -> bool:
    """Whether a signal was typed (as far as one can know), so that all of us got it.

    The terminal signals its foreground group. Nothing tells a typed signal from one
    that another program sent to this process alone; in a foreground job the former is
    taken for granted.
    """
    if signum not in (signal.SIGINT, getattr(signal, "SIGQUIT", None)):
        return False
    with tty.controlling_terminal() as fd:
        return fd is not None and tty.in_foreground(fd)


def keys_are_read() -> bool:
    """Whether the command reads single keys, so that a Ctrl-C is its own affair."""
    with tty.controlling_terminal() as fd:
        return fd is not None and not tty.reads_lines(fd)


def end_hard(signum: int, farewell: Callable[[], None]) -> None:
    """End this process at once; the workers notice and end by themselves.

    Parameters
    ----------
    signum
        The signal that asked for it.
    farewell
        What to do before, if it takes no time (a stopped terminal never lets it end).
    """
    thread = threading.Thread(target=farewell, daemon=True)
    thread.start()
    thread.join(timeout=1.0)
    os._exit(128 + signum)
