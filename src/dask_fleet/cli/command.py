r"""The user's command: found early, started with the terminal, waited for.

How it is run
-------------
The command gets this process's own standard input, output and error, not pipes: it
sees the terminal that the user sees, so colours, prompts, progress bars and line
buffering stay what they are without us.

If there is a controlling terminal, the command stays in our process group. Then the
terminal's own rules hold, and none of them has to be imitated: Ctrl-C and Ctrl-\
reach the command from the terminal, once; Ctrl-Z stops all of us and ``fg`` goes on;
``dask fleet run ... | less`` and ``&`` work. Without a terminal nobody but us can pass
a signal on, so the command leads a group of its own and signals go to all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

import psutil

from dask_fleet.cli.tty import has_terminal

#: Exit codes that shells and coreutils use for the same things.
OURSELVES_FAILED, NOT_EXECUTABLE, NOT_FOUND, BY_SIGNAL = 125, 126, 127, 128


class CannotRun(Exception):
    """The command cannot be started; ``code`` is the exit code for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def find(name: str, path: str | None = None) -> str:
    """Find a program the way a shell does.

    Parameters
    ----------
    name
        A name to look up, or a path if there is a slash in it.
    path
        Where to look instead of ``PATH``.

    Raises
    ------
    CannotRun
        With code 127 if there is none, 126 if it may not be executed.
    """
    found = shutil.which(name, path=path)
    if found is not None:
        return found
    if _exists(name, path):
        raise CannotRun(f"{name}: not an executable file", NOT_EXECUTABLE)
    raise CannotRun(f"{name}: command not found", NOT_FOUND)


def _exists(name: str, path: str | None) -> bool:
    if os.path.dirname(name):
        return os.path.exists(name)
    folders = os.get_exec_path() if path is None else path.split(os.pathsep)
    return any(os.path.isfile(os.path.join(folder, name)) for folder in folders)


class Command:
    """A running command.

    Parameters
    ----------
    arguments
        Program and arguments; no shell looks at them.
    environment
        Variables to set for it beside our own.

    Raises
    ------
    CannotRun
        If the operating system refuses.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.shares_group = os.name != "posix" or has_terminal()
        try:
            self._process = subprocess.Popen(
                arguments,
                executable=find(arguments[0]),
                env={**os.environ, **environment},
                start_new_session=not self.shares_group,
            )
        except FileNotFoundError as error:
            # The file is there, so it is the program in its first line that is not.
            text = f"{arguments[0]}: its interpreter was not found"
            raise CannotRun(text, NOT_EXECUTABLE) from error
        except OSError as error:
            text = f"{arguments[0]}: {error.strerror}"
            raise CannotRun(text, NOT_EXECUTABLE) from error

    async def wait(self) -> int:
        """Wait for its end; negative if a signal ended it.

        In a thread, because that works with every kind of event loop.
        """
        return await asyncio.to_thread(self._process.wait)

    def send(self, signum: int) -> None:
        """Pass a signal on, to the command and the processes that it started."""
        if self.shares_group:
            for process in self._family():
                _signal(process, signum)
        else:
            self._send_group(signum)

    def kill(self) -> None:
        """End it, and the processes that it started, without asking."""
        family = self._family()
        if not self.shares_group:
            self._send_group(signal.SIGKILL)
        for process in family:
            _signal(process, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)

    def _send_group(self, signum: int) -> None:
        # Once it has been waited for, its number may belong to somebody else.
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signum)

    def _family(self) -> list[psutil.Process]:
        # The parent first: it shall not replace a child that has just been ended.
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def _signal(process: psutil.Process, signum: int) -> None:
    # Gone meanwhile, or another user's (sudo).
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(signum)


def exit_code(returncode: int) -> int:
    """Give the exit code that a shell gives: 128 + n after signal n.

    Examples
    --------
    >>> exit_code(3), exit_code(-15)
    (3, 143)
    """
    return BY_SIGNAL - returncode if returncode < 0 else returncode


def outcome(returncode: int) -> str:
    """Say how a command ended.

    Examples
    --------
    >>> outcome(0), outcome(-2)
    ('exit code 0', 'ended by SIGINT')
    """
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"ended by signal {-returncode}"
