"""Children's stderr on its way through the fork server."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable

from dask_fleet.processes.sink import StderrSink
from dask_fleet.processes.tail import Tail

_CHUNK = 64 * 1024
#: Reads for the last words of a child: more than its pipe holds. A bound is needed,
#: because a process of the child's own may go on writing into the same pipe.
_LAST_READS = 32


class StderrRelay:
    """Keeps the end of what each child writes to stderr, and passes all of it on.

    Children are read from only as fast as the reader of the real stderr takes it:
    a child that writes too much waits in its own write, as it would without us.

    Parameters
    ----------
    selector
        The server's selector. The data of a key is what to call.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._sink = StderrSink()
        #: All open pipes. A pipe outlives its child if a grandchild holds it.
        self._pipes: dict[int, Tail] = {}
        self._paused = False

    def add(self, fd: int) -> Tail:
        """Take over the reading end of a child's pipe; return what keeps its end."""
        os.set_blocking(fd, False)
        tail = self._pipes[fd] = Tail()
        if not self._paused:
            self._watch(fd)
        return tail

    def drain(self, fd: int) -> None:
        """Read what a child that has ended left in its pipe."""
        for _ in range(_LAST_READS):
            if fd not in self._pipes or not self._read(fd):
                break
        self._balance()

    def finish(self, timeout: float) -> None:
        """Pass on what was read before, for `timeout` seconds at most."""
        self._sink.finish(timeout)

    def abandon(self) -> None:
        """Let go of the real stderr; for the child after a fork."""
        self._sink.abandon()

    def _watch(self, fd: int) -> None:
        def read() -> None:
            # The pipe may have ended since the selector looked.
            if fd in self._pipes:
                self._read(fd)
                self._balance()

        self._selector.register(fd, selectors.EVENT_READ, read)

    def _read(self, fd: int) -> bool:
        """Read once. False if there is nothing more for now."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._pipes[fd].add(data)
            self._sink.write(data)
            return True
        if not self._paused:
            self._selector.unregister(fd)
        del self._pipes[fd]
        os.close(fd)
        return False

    def _balance(self) -> None:
        sink = self._sink.fileno()
        if self._sink.wants_to_write != (sink in self._selector.get_map()):
            if self._sink.wants_to_write:
                write: Callable[[], None] = self._write
                self._selector.register(sink, selectors.EVENT_WRITE, write)
            else:
                self._selector.unregister(sink)
        if self._sink.full != self._paused:
            self._paused = self._sink.full
            for fd in self._pipes:
                if self._paused:
                    self._selector.unregister(fd)
                else:
                    self._watch(fd)

    def _write(self) -> None:
        self._sink.flush()
        self._balance()
