"""The fork server: a small, clean process that forks children on request.

It is started with exec, imports what children need, and stays single-threaded, so
that a fork copies a process with no lock held and no thread lost. Then it waits for

- requests of the manager (`wire`), on the one socket that it inherited,
- the end of a child, whose exit code and last words it reports at once,
- what children write to stderr, which it keeps the end of and passes on,
- the end of the manager, upon which it kills all children and ends itself.

In a child the loop ends too: `Server.serve` returns the `Fork` to carry on with, so
that nothing of the server is left on the child's stack.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dask_fleet.processes.child import Fork
from dask_fleet.processes.relay import StderrRelay
from dask_fleet.processes.tail import Tail
from dask_fleet.processes.wire import (
    MAX_FDS,
    REQUEST_SIZE,
    News,
    Order,
    Report,
    Request,
)

#: Seconds for stderr to be written, and then for killed children to be gone.
_LAST_WAIT = 2


@dataclass
class _Child:
    number: int
    pid: int
    #: Reading ends of two pipes: stderr, and the one that is closed as a hello.
    stderr: int
    hello: int
    tail: Tail
    #: Whether the manager has been told of it.
    known: bool = False


class Server:
    """The server's loop.

    Parameters
    ----------
    control
        The socket to the manager.
    manager
        The manager's process id.
    """

    def __init__(self, control: socket.socket, manager: int) -> None:
        self._control = control
        self._outgoing: deque[bytes] = deque()
        self._fork: Fork | None = None
        self._ended = False
        #: All children that have not been waited for, by process id.
        self._children: dict[int, _Child] = {}
        # Children hold the reading end only: it ends when this process does.
        self._lifeline = os.pipe()
        self._wakeup = os.pipe()
        # Poll and not epoll: stderr may be a regular file, which epoll refuses.
        self._selector = selectors.PollSelector()
        self._relay = StderrRelay(self._selector)
        self._watch(control.fileno(), self._serve_manager)
        self._watch_children()
        self._watch_manager(manager)

    def serve(self) -> Fork | None:
        """Serve until the manager is gone.

        Returns
        -------
        In a forked child, what it has to run. In the server, None at the end.
        """
        self._report(Report(News.READY))
        while not self._is_over():
            self._turn()
        return self._fork

    def _turn(self) -> None:
        for key, _ in self._selector.select():
            key.data()
            if self._is_over():
                return

    def _is_over(self) -> bool:
        return self._ended or self._fork is not None

    def end(self) -> None:
        """Kill all children, for good and at once; wait a moment for their end.

        What they have written since is let go: nobody is there any more to whom it
        matters that a worker has lost its scheduler.
        """
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        self._relay.finish(_LAST_WAIT)
        # The kernel ends this process should a child linger in an uninterruptible
        # state: it has been killed all the same.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LAST_WAIT)
        for pid in self._children:
            os.waitpid(pid, 0)

    def _watch(self, fd: int, call: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, call)

    def _watch_children(self) -> None:
        for fd in self._wakeup:
            os.set_blocking(fd, False)
        # A handler must exist for the wakeup descriptor to be written to.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        self._watch(self._wakeup[0], self._reap)

    def _watch_manager(self, manager: int) -> None:
        # The end of the socket tells as well, but not while a process that the
        # manager forked holds a copy of the manager's end.
        if sys.platform == "linux":
            try:
                self._watch(os.pidfd_open(manager), self._stop)
            except ProcessLookupError:
                self._stop()
            except OSError:  # not in this kernel or sandbox: the socket must do
                return

    def _stop(self) -> None:
        self._ended = True

    def _serve_manager(self) -> None:
        self._send_reports()
        try:
            data, fds, _, _ = socket.recv_fds(
                self._control, REQUEST_SIZE, MAX_FDS, socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return
        except ConnectionError:
            data, fds = b"", []
        # A request is so small that it comes whole, or the manager is gone.
        if len(data) < REQUEST_SIZE:
            self._stop()
            return
        request = Request.decode(data)
        if request.order is Order.FORK:
            self._fork_child(request.child, fds)
        else:
            self._send_signal(request.child, request.arg)

    def _fork_child(self, number: int, fds: list[int]) -> None:
        server = os.getpid()
        pipes: list[int] = []
        try:
            if not fds:  # the kernel drops those that this process has no room for
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pipes += os.pipe()
            pipes += os.pipe()
            pid = os.fork()
        except OSError as error:
            _close(*pipes, *fds)
            text = (error.strerror or "").encode()
            self._report(Report(News.REFUSED, number, 0, error.errno or 0, text))
            return
        stderr, its_stderr, hello, its_hello = pipes
        if pid == 0:
            self._abandon()
            self._fork = Fork(
                server=server,
                channel=fds[0],
                passed=tuple(fds[1:]),
                stderr=its_stderr,
                lifeline=self._lifeline[0],
                hello=its_hello,
            )
            return
        _close(its_stderr, its_hello, *fds)
        child = _Child(number, pid, stderr, hello, self._relay.add(stderr))
        self._children[pid] = child
        self._watch(hello, lambda: self._introduce(child))

    def _introduce(self, child: _Child) -> None:
        """Tell the manager of a child, now that it has let go of the server.

        Not earlier: whoever stops a child (SIGSTOP) that still holds copies of the
        server's descriptors, and is not yet bound to end with it, would keep both.
        """
        if not child.known:
            child.known = True
            self._selector.unregister(child.hello)
            os.close(child.hello)
            self._report(Report(News.FORKED, child.number, child.pid))

    def _abandon(self) -> None:
        """In a child: close the server's own objects, leave the manager alone."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._control.close()
        self._relay.abandon()

    def _send_signal(self, number: int, signum: int) -> None:
        # A child stays in the table until it has been waited for: its process id
        # cannot have been given to another process.
        for pid, child in self._children.items():
            if child.number == number:
                os.kill(pid, signum)

    def _reap(self) -> None:
        os.read(self._wakeup[0], 4096)
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if (child := self._children.pop(pid, None)) is not None:
                code = os.waitstatus_to_exitcode(status)
                self._introduce(child)
                self._relay.drain(child.stderr)
                text = child.tail.text()
                self._report(Report(News.EXITED, child.number, pid, code, text))

    def _report(self, report: Report) -> None:
        self._outgoing.append(report.encode())
        self._send_reports()

    def _send_reports(self) -> None:
        """Send what the manager takes; never wait for it.

        The manager may itself wait for room in stderr, that is, for us.
        """
        while self._outgoing:
            data = self._outgoing.popleft()
            try:
                sent = self._control.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            except ConnectionError:
                self._stop()
                return
            if sent < len(data):
                self._outgoing.appendleft(data[sent:])
                break
        events = selectors.EVENT_READ
        if self._outgoing:
            events |= selectors.EVENT_WRITE
        self._selector.modify(self._control.fileno(), events, self._serve_manager)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
