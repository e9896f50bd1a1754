"""A process that a fork server forked, as its manager sees it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from dask_fleet.processes.channel import Channel
from dask_fleet.processes.report import ExitReport


class ForkedProcess:
    """A warm child.

    Made by `ForkServer.fork`; belongs to the event loop it was made on.

    Parameters
    ----------
    name
        Name of the process, for people.
    channel
        The channel to the child.
    send_signal
        Sends a signal to the child, if it still runs.

    Attributes
    ----------
    name
        Name of the process, for people.
    channel
        The channel to the child.
    pid
        Process id; None before the process exists. It is kept after the end.
    report
        How it ended; None as long as it runs.
    """

    def __init__(
        self, name: str, channel: Channel, send_signal: Callable[[int], None]
    ) -> None:
        self.name = name
        self.channel = channel
        self.pid: int | None = None
        self.report: ExitReport | None = None
        self._send_signal = send_signal
        self._started: asyncio.Future[None] = channel.loop.create_future()
        self._ended: asyncio.Future[ExitReport] = channel.loop.create_future()
        self._callbacks: list[Callable[[ExitReport], None]] = []

    def __repr__(self) -> str:
        state = "running" if self.report is None else self.report.describe()
        return f"<{type(self).__name__} {self.name!r} pid={self.pid} {state}>"

    @property
    def exitcode(self) -> int | None:
        """Exit code as in `subprocess`: minus the signal's number if killed."""
        return None if self.report is None else self.report.exitcode

    @property
    def stderr_tail(self) -> str:
        """The last lines of its stderr; empty as long as it runs."""
        return "" if self.report is None else self.report.stderr_tail

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.pid is not None and self.report is None

    async def started(self) -> None:
        """Wait until the process exists.

        Raises
        ------
        OSError
            The system refused to fork.
        ForkServerError
            The server ended before.
        """
        await asyncio.shield(self._started)

    async def wait(self) -> ExitReport:
        """Wait until the process has ended, and return how."""
        return await asyncio.shield(self._ended)

    def on_exit(self, callback: Callable[[ExitReport], None]) -> None:
        """Call `callback` with the report at the end, or soon if that has been.

        Callbacks run on the loop, before whoever awaits `wait` goes on.
        """
        if self.report is None:
            self._callbacks.append(callback)
        else:
            self.channel.loop.call_soon(callback, self.report)

    def send_signal(self, signum: int) -> None:
        """Send a signal. Does nothing if the process has ended."""
        if self.report is None:
            self._send_signal(signum)

    def terminate(self) -> None:
        """Ask the process to end: SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once, whatever it is doing: SIGKILL."""
        self.send_signal(signal.SIGKILL)

    # For the server's end only

    def set_started(self, pid: int) -> None:
        """Note that the process exists."""
        self.pid = pid
        self._started.set_result(None)

    def set_refused(self, error: Exception) -> None:
        """Note that there will be no process."""
        self._started.set_exception(error)
        self._started.exception()  # it is no fault not to have waited for it
        self.set_ended(ExitReport(pid=None, exitcode=None, reason=str(error)))

    def set_ended(self, report: ExitReport) -> None:
        """Note that the process has ended. All its messages are in the channel."""
        self.report = report
        self.channel.finish()
        # From the loop and not from here: one that raises is no concern of the others.
        for callback in self._callbacks:
            self.channel.loop.call_soon(callback, report)
        self._callbacks.clear()
        self._ended.set_result(report)
