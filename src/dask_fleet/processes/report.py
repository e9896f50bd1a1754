"""How a process ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass


@dataclass(frozen=True)
class ExitReport:
    """How a process ended, as far as it is known.

    Parameters
    ----------
    pid
        Its process id; None if it never ran.
    exitcode
        Exit code; minus the signal's number if a signal ended it; None if it never
        ran.
    stderr_tail
        The last lines that it wrote to stderr (at most 50 lines and 8 KiB).
    reason
        Set when it did not end by itself but with something else, as a clause:
        ``"its fork server was killed by signal 9"``.

    Examples
    --------
    >>> print(ExitReport(pid=17, exitcode=-9).describe())
    process 17 was killed by signal 9 (SIGKILL)
    >>> print(ExitReport(pid=17, exitcode=3, stderr_tail="no space left").describe())
    process 17 ended with exit code 3; its last words:
    no space left
    """

    pid: int | None
    exitcode: int | None
    stderr_tail: str = ""
    reason: str | None = None

    def describe(self) -> str:
        """Return one sentence, followed by the end of stderr if there is any."""
        text = f"process {self.pid} {how(self.exitcode)}"
        if self.pid is None:
            text = "the process was never started"
        if self.reason:
            text += f": {self.reason}"
        if self.stderr_tail.strip():
            text += f"; its last words:\n{self.stderr_tail.rstrip()}"
        return text


def how(exitcode: int | None) -> str:
    """Put an exit code into words.

    Examples
    --------
    >>> how(0), how(-15), how(None)
    ('ended with exit code 0', 'was killed by signal 15 (SIGTERM)', 'ended')
    """
    if exitcode is None:
        return "ended"
    if exitcode >= 0:
        return f"ended with exit code {exitcode}"
    number = -exitcode
    names = {member.value: member.name for member in signal.Signals}
    name = f" ({names[number]})" if number in names else ""
    return f"was killed by signal {number}{name}"
