"""The real stderr, written to without ever waiting for its reader."""

from __future__ import annotations

import os
import select
import stat
import time
from contextlib import suppress

#: A pipe that polls as writable takes this much without blocking (POSIX).
_CHUNK = 512
#: Where the descriptor is non-blocking, a write may be larger.
_LARGE_CHUNK = 64 * 1024
#: Bytes waiting from which on children are no longer read.
_FULL = 64 * 1024


class StderrSink:
    """Passes on what children wrote, as fast as the reader of stderr takes it.

    The descriptor is shared with the manager, so it must not be made non-blocking:
    that would change it for the manager too. Where the system lets us open the same
    file once more (a pipe or a terminal, on Linux), that one is non-blocking;
    elsewhere small writes follow a poll.

    Parameters
    ----------
    fd
        The descriptor of stderr.
    """

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._own = _reopen(fd)
        self._waiting = bytearray()
        self._broken = False

    @property
    def wants_to_write(self) -> bool:
        """Whether bytes wait for the reader."""
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        """Whether so much waits that nothing more should be read from children."""
        return len(self._waiting) >= _FULL

    def fileno(self) -> int:
        """Return the descriptor to poll for writing."""
        return self._fd if self._own is None else self._own

    def write(self, data: bytes) -> None:
        """Take bytes over and write what can be written at once."""
        if not self._broken:
            self._waiting += data
            self.flush()

    def flush(self) -> None:
        """Write what can be written without waiting."""
        while self._waiting and self._writable():
            size = _CHUNK if self._own is None else _LARGE_CHUNK
            try:
                written = os.write(self.fileno(), bytes(self._waiting[:size]))
            except BlockingIOError:
                return
            except OSError:
                # Nobody reads stderr any more. That is no fault of the children:
                # they go on, and what they say is still kept for the exit report.
                self._broken = True
                self._waiting.clear()
                return
            del self._waiting[:written]

    def finish(self, timeout: float) -> None:
        """Write the rest, for `timeout` seconds at most."""
        end = time.monotonic() + timeout
        while self._waiting and (left := end - time.monotonic()) > 0:
            self._writable(left)
            self.flush()

    def abandon(self) -> None:
        """Close what this object opened; for the child after a fork."""
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def _writable(self, timeout: float = 0) -> bool:
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        return bool(poll.poll(timeout * 1000))


def _reopen(fd: int) -> int | None:
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return None
    # Not there outside Linux; not allowed for another user's terminal.
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(f"/proc/self/fd/{fd}", flags)
    return None
