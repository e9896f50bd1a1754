"""What can go wrong between a manager and the processes it forks."""

from __future__ import annotations

import multiprocessing
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dask_fleet.processes.report import ExitReport

_GUARD_HINT = (
    "the script builds a cluster while it is being imported by a worker; "
    'put it under `if __name__ == "__main__":`'
)


class ForkServerError(RuntimeError):
    """The fork server cannot be started, has ended, or does not answer.

    Examples
    --------
    >>> raise ForkServerError("fork server 17 was killed by signal 9")
    Traceback (most recent call last):
    ...
    dask_fleet.processes.errors.ForkServerError: fork server 17 was killed by signal 9
    """


class ProcessEnded(RuntimeError):
    """A process ended before it had said what was waited for.

    Attributes
    ----------
    report
        How it ended: process id, exit code, last lines of stderr.
    """

    def __init__(self, report: ExitReport) -> None:
        super().__init__(report.describe())
        self.report = report

    def __reduce__(self) -> tuple[type[ProcessEnded], tuple[ExitReport]]:
        return type(self), (self.report,)


class MainGuardError(RuntimeError):
    """A worker imported a script that builds a cluster at module level.

    Like ``multiprocessing``'s spawn, a warm child imports the main script, so that
    what the script defines can be unpickled. A script without a main guard would
    then build a cluster in every worker of the cluster, and so on.

    Examples
    --------
    >>> print(MainGuardError())
    the script builds a cluster while it is being imported by a worker; \
put it under `if __name__ == "__main__":`
    """

    def __init__(self, hint: str = _GUARD_HINT) -> None:
        super().__init__(hint)


class RemoteTraceback(Exception):
    """The traceback of an exception as it was in the other process, as text.

    Stands as the cause of an exception that came out of a child, so that a printed
    traceback shows where in the child it was raised.
    """

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


#: A spawned worker that imports a script without a main guard ends with this code.
MAIN_GUARD_EXIT = 78


def check_main_guard() -> None:
    """Raise if this process is still importing the main script of its manager.

    Whatever starts processes calls this first, before it has started anything.

    Raises
    ------
    MainGuardError
        This is a warm worker that is only just importing the script; its manager is
        told.
    SystemExit
        This is a spawned one. It can tell nobody but by its exit code, and a traceback
        of each would bury the hint.

    Examples
    --------
    >>> check_main_guard()
    """
    # multiprocessing keeps the same mark while a spawned child imports the script.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        if "dask_fleet.processes.child" in sys.modules:
            raise MainGuardError
        raise SystemExit(MAIN_GUARD_EXIT)
