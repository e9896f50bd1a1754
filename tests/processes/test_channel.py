"""Messages arrive whole, in order, and up to the very end."""

from __future__ import annotations

import asyncio
import os
import socket
import threading

import pytest

from dask_fleet.processes.channel import Channel, receive_message, send_message
from tests.processes.support import run


def test_large_messages_in_both_directions() -> None:
    async def main() -> None:
        left, right = map(Channel, socket.socketpair())
        large = os.urandom(3_000_000)
        for number in range(3):
            left.send((number, large))
            right.send((number, large))
        for number in range(3):
            assert await right.receive() == (number, large)
            assert await left.receive() == (number, large)
        await asyncio.gather(left.flush(), right.flush())
        left.close()
        right.close()

    run(main())


def test_flush_waits_for_the_other_side() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        channel.send(bytes(3_000_000))
        flushed = asyncio.create_task(channel.flush())
        await asyncio.sleep(0)
        assert not flushed.done()
        received: list[bytes] = []
        reader = threading.Thread(
            target=lambda: received.append(receive_message(theirs))
        )
        reader.start()
        await flushed
        reader.join()
        assert len(received[0]) == 3_000_000
        channel.close()
        theirs.close()

    run(main())


def test_messages_before_the_end_are_received() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        waiting = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)
        for number in range(3):
            send_message(theirs, number)
        theirs.close()
        assert await waiting == 0
        channel.send("to nobody")
        assert [await channel.receive(), await channel.receive()] == [1, 2]
        for _ in range(2):
            with pytest.raises(EOFError):
                await channel.receive()
        channel.close()
        channel.close()
        channel.send("to nobody")

    run(main())


def test_finish_reads_what_is_there() -> None:
    """The other end may be held open by a process that nobody knows."""

    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        send_message(theirs, "last")
        theirs.sendall(b"\0\0\0")  # and the beginning of one more
        channel.finish()
        assert await channel.receive() == "last"
        with pytest.raises(EOFError):
            await channel.receive()
        theirs.close()

    run(main())


def test_cancelled_receive_loses_nothing() -> None:
    async def main() -> None:
        left, right = map(Channel, socket.socketpair())
        waiting = asyncio.create_task(right.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        left.send("still there")
        assert await right.receive() == "still there"
        left.close()
        right.close()

    run(main())


def test_blocking_end() -> None:
    left, right = socket.socketpair()
    send_message(left, {"a": 1})
    assert receive_message(right) == {"a": 1}
    left.close()
    with pytest.raises(EOFError):
        receive_message(right)
    right.close()
