"""What manager and fork server say to each other on their socket.

Both directions are streams of records of fixed size; a report may carry text behind
it. Nothing is pickled here: the server neither knows nor cares what a child will run.
What a child needs goes from the manager to the child on a channel of their own, the
end of which travels with the request as a file descriptor.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

_REQUEST = struct.Struct("!BxxxiQ")
_REPORT = struct.Struct("!BxxxiiIQ")

#: Bytes of one request. A request is sent whole and carries its descriptors with it.
REQUEST_SIZE = _REQUEST.size

#: Most descriptors that one request may carry (the kernel's own limit is 253).
MAX_FDS = 250


class Order(IntEnum):
    """What the manager asks for."""

    #: Fork a child. The first descriptor is the child's end of its channel.
    FORK = 1
    #: Send the signal ``arg`` to a child, if it still runs.
    SIGNAL = 2


class News(IntEnum):
    """What the server says."""

    #: All imports are done.
    READY = 1
    #: The child exists; ``pid`` is its process id.
    FORKED = 2
    #: No child came of it: ``code`` is the errno, the text says why.
    REFUSED = 3
    #: The child ended; ``code`` as in subprocess, the text is the end of its stderr.
    EXITED = 4
    #: The server cannot serve and ends; the text says why.
    UNFIT = 5


@dataclass(frozen=True)
class Request:
    """One request: an order, its number, and the child it is about."""

    order: Order
    child: int
    arg: int = 0

    def encode(self) -> bytes:
        """Return the `REQUEST_SIZE` bytes of this request."""
        return _REQUEST.pack(self.order, self.arg, self.child)

    @classmethod
    def decode(cls, data: bytes) -> Request:
        """Return the request in `REQUEST_SIZE` bytes.

        Examples
        --------
        >>> Request.decode(Request(Order.SIGNAL, child=7, arg=15).encode())
        Request(order=<Order.SIGNAL: 2>, child=7, arg=15)
        """
        order, arg, child = _REQUEST.unpack(data)
        return cls(Order(order), child, arg)


@dataclass(frozen=True)
class Report:
    """One report about a child, or about the server if ``child`` is 0."""

    news: News
    child: int = 0
    pid: int = 0
    code: int = 0
    text: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes of this report."""
        size = len(self.text)
        return (
            _REPORT.pack(self.news, self.pid, self.code, size, self.child) + self.text
        )


class ReportDecoder:
    """Cuts a stream of bytes into reports.

    Examples
    --------
    >>> data = Report(News.EXITED, child=7, pid=40, code=-9, text=b"bye").encode()
    >>> decoder = ReportDecoder()
    >>> decoder.feed(data[:20])
    []
    >>> decoder.feed(data[20:])
    [Report(news=<News.EXITED: 4>, child=7, pid=40, code=-9, text=b'bye')]
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Report]:
        """Take in bytes as they came; return the reports that are complete now."""
        self._buffer += data
        reports = []
        while (report := self._take()) is not None:
            reports.append(report)
        return reports

    def _take(self) -> Report | None:
        if len(self._buffer) < _REPORT.size:
            return None
        news, pid, code, size, child = _REPORT.unpack_from(self._buffer)
        end = _REPORT.size + size
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_REPORT.size : end])
        del self._buffer[:end]
        return Report(News(news), child, pid, code, text)
