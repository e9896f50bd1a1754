"""The manager's end of one running fork server."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from multiprocessing import resource_tracker, spawn, util
from typing import Any

from dask_fleet.processes.channel import Channel
from dask_fleet.processes.errors import ForkServerError
from dask_fleet.processes.forked import ForkedProcess
from dask_fleet.processes.forked_manager import close_in_forks
from dask_fleet.processes.report import ExitReport, how
from dask_fleet.processes.waiting import when_ended
from dask_fleet.processes.wire import News, Order, Report, ReportDecoder, Request

#: Seconds for a server to end once it was told to.
_END_TIMEOUT = 5

# The collector only costs time while modules are imported. Nothing is imported before
# the search path is this process's own: a file in the working directory could be in
# the way.
_BOOT = (
    "import gc, sys; gc.disable(); sys.path[:] = sys.argv[2:]; "
    "from dask_fleet.processes.server_main import main; main(sys.argv[1])"
)


class ServerProcess:
    """A fork server that was started, from its start to its end.

    Starting returns at once: requests wait in the socket until the server has
    imported what it needs. Belongs to the event loop it was made on.

    Parameters
    ----------
    environ
        Environment variables to start the server with, besides those of this process.
    preload
        Names of further modules to import.

    Attributes
    ----------
    pid
        Process id of the server.
    gone
        Why the server serves no more; None as long as it does.

    Raises
    ------
    OSError
        The interpreter cannot be started.
    """

    def __init__(self, environ: Mapping[str, str], preload: Sequence[str]) -> None:
        self.gone: str | None = None
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        #: All processes that have not ended, by their number.
        self._processes: dict[int, ForkedProcess] = {}
        self._decoder = ReportDecoder()
        self._outgoing: deque[tuple[bytes, list[int]]] = deque()
        self._unfit: str | None = None
        self._ready = self._loop.create_future()
        self._ended = self._loop.create_future()
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._popen = _start(theirs, environ, preload)
            except BaseException:
                self._control.close()
                raise
        self.pid = self._popen.pid
        self._control.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._on_readable)
        close_in_forks(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} pid={self.pid} {self.gone or 'running'}>"

    @property
    def ended(self) -> bool:
        """Whether the server has ended and been waited for."""
        return self._ended.done()

    async def ready(self) -> None:
        """Wait until the server has imported everything.

        Raises
        ------
        ForkServerError
            It ended instead.
        """
        await asyncio.shield(self._ready)

    def fork(self, name: str, frame: bytes, fds: Sequence[int]) -> ForkedProcess:
        """Ask for a child; returns at once, `ForkedProcess.started` waits.

        Parameters
        ----------
        name
            Name of the process, for people.
        frame
            What the child is to be, from `launch.pack`.
        fds
            Descriptors to go with it.
        """
        if self.gone is not None:
            raise ForkServerError(self.gone)
        number = next(self._numbers)
        passed = [os.dup(fd) for fd in fds]
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        process = ForkedProcess(
            name, channel, lambda signum: self._send_signal(number, signum)
        )
        self._processes[number] = process
        # The kernel keeps what is in flight: our own copies are closed when sent.
        self._send(Request(Order.FORK, number), [theirs.detach(), *passed])
        channel.send_frame(frame)
        return process

    async def stop(self) -> None:
        """End the server, and with it all processes that are left.

        Returns when the server has ended and been waited for.
        """
        self._disconnect("its fork server was released")
        await asyncio.shield(self._ended)

    def close_inherited(self) -> None:
        """In a process forked off: close the copy, leave the server alone."""
        self._control.close()
        self.gone = "the fork server belongs to another process"
        self._popen.returncode = 0  # not ours to wait for

    # Requests

    def _send_signal(self, number: int, signum: int) -> None:
        if self.gone is None:
            self._send(Request(Order.SIGNAL, number, signum), [])

    def _send(self, request: Request, fds: list[int]) -> None:
        self._outgoing.append((request.encode(), fds))
        if len(self._outgoing) == 1:
            self._flush()

    def _flush(self) -> None:
        self._loop.remove_writer(self._control.fileno())
        while self._outgoing:
            data, fds = self._outgoing[0]
            try:
                socket.send_fds(self._control, [data], fds)
            except BlockingIOError:
                self._loop.add_writer(self._control.fileno(), self._flush)
                return
            except ConnectionError:
                pass  # the reading side sees the end and draws the consequences
            except OSError as error:  # too many descriptors in flight
                self._refuse(Request.decode(data), error)
            self._outgoing.popleft()
            _close(fds)

    def _refuse(self, request: Request, error: OSError) -> None:
        if request.order is Order.FORK:
            self._processes.pop(request.child).set_refused(error)

    # Reports

    def _on_readable(self) -> None:
        try:
            data = self._control.recv(64 * 1024)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        for report in self._decoder.feed(data):
            self._take(report)
        if not data:
            self._disconnect("its fork server has ended")

    def _take(self, report: Report) -> None:
        if report.news is News.READY:
            self._ready.set_result(None)
            return
        text = report.text.decode(errors="replace")
        if report.news is News.UNFIT:
            self._unfit = text
            return
        process = self._processes[report.child]
        if report.news is News.FORKED:
            process.set_started(report.pid)
            return
        del self._processes[report.child]
        if report.news is News.REFUSED:
            process.set_refused(OSError(report.code, f"cannot fork: {text}"))
        else:
            process.set_ended(ExitReport(report.pid, report.code, text))

    # The end

    def _disconnect(self, reason: str) -> None:
        if self.gone is not None:
            return
        self.gone = reason
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._control.fileno())
        self._control.close()
        for _, fds in self._outgoing:
            _close(fds)
        self._outgoing.clear()
        # A server that was stopped (SIGSTOP) does not notice that it is to end.
        self._deadline = self._loop.call_later(_END_TIMEOUT, self._popen.kill)
        when_ended(self._popen, self._on_ended)

    def _on_ended(self) -> None:
        self._deadline.cancel()
        code = self._popen.wait()
        if code != 0:
            self.gone = f"its fork server {self.pid} {how(code)}"
        if self._unfit is not None:
            self.gone = f"its fork server is unfit: {self._unfit}"
        error = ForkServerError(self.gone)
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # it is no fault not to have waited for it
        # The kernel kills the children of a server that has ended.
        for process in self._processes.values():
            if process.pid is None:
                process.set_refused(error)
            else:
                process.set_ended(
                    ExitReport(process.pid, -signal.SIGKILL, reason=self.gone)
                )
        self._processes.clear()
        self._ended.set_result(None)


def _start(
    control: socket.socket, environ: Mapping[str, str], preload: Sequence[str]
) -> subprocess.Popen[bytes]:
    tracker = resource_tracker.getfd()
    assert tracker is not None
    path: list[Any] = sys.path
    settings = {
        "control": control.fileno(),
        "manager": os.getpid(),
        "tracker": tracker,
        "preload": list(preload),
    }
    command = [
        os.fsdecode(spawn.get_executable()),
        *util._args_from_interpreter_flags(),  # type: ignore[attr-defined]
        "-c",
        _BOOT,
        json.dumps(settings),
        *(entry for entry in path if isinstance(entry, str)),
    ]
    # A blocked signal stays blocked over exec, until the server ignores it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environ},
            pass_fds=[control.fileno(), tracker],
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
