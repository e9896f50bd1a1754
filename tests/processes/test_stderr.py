"""Children's stderr: all of it comes out, and nobody waits for its reader."""

from __future__ import annotations

import os
import selectors
from pathlib import Path

import pytest

from dask_fleet.processes.relay import StderrRelay
from dask_fleet.processes.sink import StderrSink
from dask_fleet.processes.tail import MAX_BYTES, Tail
from tests.processes.support import all_gone, manager

_TALKER = """
    import asyncio, json, sys
    from dask_fleet.processes import ForkServer
    from tests.processes import probes

    async def main():
        server = ForkServer()
        talker = await server.fork(probes.write_much, (20_000,))
        other = await server.fork(probes.sleep)
        print(json.dumps([server.pid, talker.pid, other.pid]), flush=True)
        other.kill()
        report = await other.wait()
        print(json.dumps(report.exitcode), flush=True)
        report = await talker.wait()
        print(json.dumps([report.exitcode, report.stderr_tail[-120:]]), flush=True)
        await server.release()

    if __name__ == "__main__":
        asyncio.run(main())
"""


def test_reader_that_does_not_read(tmp_path: Path) -> None:
    """The talker waits in its own write; everybody else goes on."""
    reading, writing = os.pipe()
    with manager(tmp_path, _TALKER, stderr=writing) as running:
        os.close(writing)
        pids = running.says()
        assert running.says() == -9
        with open(reading, "rb") as stream:
            lines = stream.read().splitlines()
        assert len(lines) == 20_000
        code, tail = running.says()
        assert (code, tail.split()[-2]) == (0, "19999")
        assert running.process.wait() == 0
        assert all_gone(pids)


def test_reader_that_has_gone(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with manager(tmp_path, _TALKER, stderr=writing) as running:
        os.close(writing)
        os.close(reading)
        running.says()
        assert running.says() == -9
        code, tail = running.says()
        assert (code, tail.split()[-2]) == (0, "19999")


def test_reader_that_does_not_read_and_manager_that_dies(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with manager(tmp_path, _TALKER, stderr=writing) as running:
        os.close(writing)
        pids = running.says()
        running.kill()
        assert all_gone(pids)
    os.close(reading)


def test_file(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        log.write("first\n")
        log.flush()
        with manager(tmp_path, _TALKER, stderr=log.fileno()) as running:
            assert [running.says() for _ in range(3)][2][0] == 0
            assert running.process.wait() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert (lines[0], len(lines)) == ("first", 20_001)


def test_sink_leaves_the_shared_descriptor_alone() -> None:
    reading, writing = os.pipe()
    sink = StderrSink(writing)
    sink.write(b"x" * 200_000)
    assert (sink.wants_to_write, sink.full) == (True, True)
    assert os.get_blocking(writing)
    got = 0
    while sink.wants_to_write:
        got += len(os.read(reading, 65536))
        sink.flush()
    sink.abandon()
    os.close(writing)
    while data := os.read(reading, 65536):
        got += len(data)
    os.close(reading)
    assert got == 200_000


def test_sink_gives_up_at_the_end() -> None:
    reading, writing = os.pipe()
    sink = StderrSink(writing)
    sink.write(b"x" * 200_000)
    sink.finish(timeout=0.01)
    assert sink.wants_to_write
    sink.abandon()
    os.close(reading)
    os.close(writing)


def test_relay_forgets_pipes_that_have_ended(capfd: pytest.CaptureFixture[str]) -> None:
    selector = selectors.PollSelector()
    relay = StderrRelay(selector)
    reading, writing = os.pipe()
    tail = relay.add(reading)
    os.write(writing, b"hello\n")
    os.close(writing)
    relay.drain(reading)
    relay.drain(reading)
    assert tail.text() == b"hello\n"
    assert not selector.get_map()
    relay.finish(0)
    relay.abandon()
    assert capfd.readouterr().err == "hello\n"


def test_tail_of_one_long_line() -> None:
    tail = Tail()
    tail.add(b"x" * 1_000_000)
    tail.add(b"y\n")
    assert len(tail.text()) == MAX_BYTES
    assert tail.text().endswith(b"xy\n")
