"""Run ``dask fleet`` as a program: with pipes, or on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cli.emulator import Emulator

FAKE = (sys.executable, "-m", "tests.cli.fake")
REAL = (sys.executable, "-m", "dask_fleet.cli")

#: Python that takes its standard input as controlling terminal and becomes the rest.
_ON_TERMINAL = (
    "import os, sys;"
    "os.close(os.open(os.ttyname(0), os.O_RDWR));"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


#: Python that does what a shell does: runs the rest as a job in the foreground, says
#: when it was stopped, and continues it when told to with SIGUSR1 (a second reader of
#: the terminal could take what is meant for the first).
_JOB_CONTROL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    print("[stopped]", flush=True)
    signal.sigwait([signal.SIGUSR1])
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""

_ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """Give the variables for a program under test."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "TERM": "xterm", "COLUMNS": "", "LINES": "", **more}


def python(code: str) -> tuple[str, ...]:
    """Give a command that runs some lines of Python."""
    return (sys.executable, "-c", code)


def job(arguments: Sequence[str]) -> tuple[str, ...]:
    """Give a command that runs another one as a shell runs a job."""
    return (*python(_JOB_CONTROL), *arguments)


def finished(
    arguments: Sequence[str], *, given: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without a terminal."""
    return subprocess.run(
        arguments,
        input=given,
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env=environment(**variables),
        start_new_session=True,
        check=False,
    )


@contextmanager
def started(
    arguments: Sequence[str], **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """Start a program without a terminal; it is ended with the block."""
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env=environment(**variables),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


class Terminal:
    """A terminal with a program on it."""

    def __init__(
        self, arguments: Sequence[str], size: tuple[int, int], variables: dict[str, str]
    ) -> None:
        self._keyboard, screen = pty.openpty()
        columns, rows = size
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
        self.emulator = Emulator(columns, rows)
        self.raw = ""
        self.process = subprocess.Popen(
            (*python(_ON_TERMINAL), *arguments),
            stdin=screen,
            stdout=screen,
            stderr=screen,
            cwd=_ROOT,
            env=environment(**variables),
            start_new_session=True,
        )
        os.close(screen)

    @property
    def text(self) -> list[str]:
        """All lines, those that have scrolled away included."""
        return [*self.emulator.history, *self.emulator.lines]

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._keyboard, keys.encode())

    def until(self, seen: Callable[[list[str]], object]) -> None:
        """Read until the screen's lines are as wanted."""
        while not seen(self.emulator.lines):
            assert self._read(), f"the program has ended: {self.text}"

    def until_ended(self) -> int:
        """Read to the end; gives the exit code."""
        while self._read():
            pass
        return self.process.wait()

    def close(self) -> None:
        """End what still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._keyboard)

    def _read(self) -> bool:
        select.select([self._keyboard], [], [])
        try:
            data = os.read(self._keyboard, 65536)
        except OSError:
            # How Linux says that nobody has the terminal open any more.
            return False
        self.raw += data.decode()
        self.emulator.feed(data.decode())
        return bool(data)


@contextmanager
def on_terminal(
    arguments: Sequence[str], *, columns: int = 80, rows: int = 14, **variables: str
) -> Iterator[Terminal]:
    """Start a program on a terminal of its own; it is ended with the block."""
    terminal = Terminal(arguments, (columns, rows), variables)
    try:
        yield terminal
    finally:
        terminal.close()
