"""The last words of a process."""

from __future__ import annotations

#: Bytes that are kept of what a child writes to stderr.
MAX_BYTES = 8 * 1024
#: Lines that are kept of them.
MAX_LINES = 50


class Tail:
    r"""Keeps the end of a stream of bytes.

    Examples
    --------
    >>> tail = Tail()
    >>> for number in range(1000):
    ...     tail.add(b"line %d\n" % number)
    >>> tail.text().splitlines()[0], tail.text().splitlines()[-1]
    (b'line 950', b'line 999')
    """

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self._kept += data
        if len(self._kept) > 2 * MAX_BYTES:
            del self._kept[:-MAX_BYTES]

    def text(self) -> bytes:
        """Return the last lines: `MAX_LINES` at most, in `MAX_BYTES` at most."""
        lines = bytes(self._kept[-MAX_BYTES:]).splitlines(keepends=True)
        return b"".join(lines[-MAX_LINES:])
