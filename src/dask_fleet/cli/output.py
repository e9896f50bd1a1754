"""Writing to a standard stream without ever getting in the way of the exit code."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import TextIO


class Output:
    """A standard stream: whole texts, written at once, and silence once it is broken.

    Parameters
    ----------
    stream
        Standard output or standard error, or what stands in for it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fd = _file_descriptor(stream)
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    @property
    def ascii_only(self) -> bool:
        """Whether it takes nothing beyond ASCII, as far as we need it."""
        try:
            "─…".encode(self.encoding)
        except UnicodeEncodeError:
            return True
        return False

    def write(self, text: str) -> None:
        """Write a text; characters that the stream cannot show become ``?``."""
        data = text.encode(self.encoding, "replace")
        try:
            if self.fd is None:
                self._stream.write(data.decode(self.encoding))
            else:
                _write_all(self.fd, data)
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        """Send the rest to nowhere: nobody reads it, and Python flushes at its end."""
        if self.fd is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fd)
            os.close(nowhere)


def standard_error() -> Output:
    """Give standard error as it is now."""
    return Output(sys.stderr)


def standard_output() -> Output:
    """Give standard output as it is now."""
    return Output(sys.stdout)


def _file_descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError):
        return None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        # A command that shares the terminal may have set it to not block.
        with contextlib.suppress(BlockingIOError):
            data = data[os.write(fd, data) :]
            continue
        select.select([], [fd], [])
