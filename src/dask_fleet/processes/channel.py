"""The channel between a manager and one of its children: messages in both directions.

A message is a pickled object, a frame is a message with its size in front. `Channel`
is an end that belongs to an event loop; the functions serve a child that has none.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections import deque
from typing import Any

from dask_fleet.processes.forked_manager import close_in_forks
from dask_fleet.processes.pickling import dumps

_SIZE = struct.Struct("!Q")
_CHUNK = 256 * 1024


def send_message(sock: socket.socket, message: Any) -> None:
    """Send a message through a blocking socket."""
    sock.sendall(frame(dumps(message)))


def receive_message(sock: socket.socket) -> Any:
    """Receive a message from a blocking socket.

    Raises
    ------
    EOFError
        The other side has ended or closed its end.
    """
    return pickle.loads(receive_frame(sock))


def receive_frame(sock: socket.socket) -> bytes:
    """Receive a message that is not to be unpickled yet. Errors as above."""
    (size,) = _SIZE.unpack(_receive_exactly(sock, _SIZE.size))
    return _receive_exactly(sock, size)


def frame(data: bytes) -> bytes:
    """Put its size in front of a message."""
    return _SIZE.pack(len(data)) + data


def _receive_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = sock.recv(min(size - len(data), _CHUNK))
        if not more:
            raise EOFError("the other side has closed the channel")
        data += more
    return bytes(data)


class Channel:
    """One end of a channel, for use on the running event loop.

    Parameters
    ----------
    sock
        A connected stream socket. The channel owns it from now on.

    Attributes
    ----------
    loop
        The event loop that this end belongs to.

    Examples
    --------
    >>> async def main():
    ...     left, right = map(Channel, socket.socketpair())
    ...     left.send({"op": "hello"})
    ...     print(await right.receive())
    ...     left.close()
    ...     try:
    ...         await right.receive()
    ...     except EOFError:
    ...         print("closed")
    ...     right.close()
    >>> asyncio.run(main())
    {'op': 'hello'}
    closed
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.loop = asyncio.get_running_loop()
        self._sock = sock
        self._incoming = bytearray()
        self._messages: deque[bytes] = deque()
        self._outgoing = bytearray()
        self._reading = True
        #: Set when the next change on the reading or the writing side happens.
        self._changed: asyncio.Future[None] | None = None
        self.loop.add_reader(sock.fileno(), self._on_readable)
        close_in_forks(self)

    def send(self, message: Any) -> None:
        """Send a message; what the socket does not take now follows later.

        Nothing is said if the other side is gone: `receive` tells.
        """
        self.send_frame(dumps(message))

    def send_frame(self, data: bytes) -> None:
        """Send a message that is already pickled."""
        if self._sock.fileno() < 0:
            return
        waiting = bool(self._outgoing)
        self._outgoing += frame(data)
        if not waiting:
            self._write()
            if self._outgoing:
                self.loop.add_writer(self._sock.fileno(), self._on_writable)

    async def flush(self) -> None:
        """Wait until all that was sent has gone out (or can no longer)."""
        while self._outgoing:
            await self._change()

    async def receive(self) -> Any:
        """Return the next message, in the order in which they were sent.

        Raises
        ------
        EOFError
            The other side has ended, and all that it had sent was received.
        """
        while not self._messages:
            if not self._reading:
                raise EOFError("the other side has closed the channel")
            await self._change()
        return pickle.loads(self._messages.popleft())

    def finish(self) -> None:
        """Read what is there and expect no more: the other process has ended.

        Its end of the channel may live on in a process that it forked.
        """
        while self._reading and self._read():
            pass
        self.close()

    def close(self) -> None:
        """Close this end. What was received can still be fetched."""
        if self._sock.fileno() >= 0:
            self.loop.remove_reader(self._sock.fileno())
            self.loop.remove_writer(self._sock.fileno())
            self._sock.close()
        self._reading = False
        self._outgoing.clear()
        self._wake()

    def close_inherited(self) -> None:
        """In a process forked off: close the copy, leave the shared loop alone."""
        self._sock.close()

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = self.loop.create_future()
        await asyncio.shield(self._changed)

    def _wake(self) -> None:
        if self._changed is not None and not self.loop.is_closed():
            self._changed.set_result(None)
            self._changed = None

    def _on_readable(self) -> None:
        self._read()
        if not self._reading:
            self.loop.remove_reader(self._sock.fileno())
        self._wake()

    def _read(self) -> bool:
        """Read once. False if there is nothing more for now."""
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._reading = False
            return False
        self._incoming += data
        while (message := self._take()) is not None:
            self._messages.append(message)
        return True

    def _take(self) -> bytes | None:
        if len(self._incoming) < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._incoming)
        end = _SIZE.size + size
        if len(self._incoming) < end:
            return None
        message = bytes(self._incoming[_SIZE.size : end])
        del self._incoming[:end]
        return message

    def _on_writable(self) -> None:
        self._write()
        if not self._outgoing:
            self.loop.remove_writer(self._sock.fileno())
            self._wake()

    def _write(self) -> None:
        while self._outgoing:
            try:
                sent = self._sock.send(self._outgoing[:_CHUNK])
            except BlockingIOError:
                return
            except ConnectionError:
                # The other side is gone, which the reading side will see.
                self._outgoing.clear()
                return
            del self._outgoing[:sent]
