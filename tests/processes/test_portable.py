"""The ways that serve where Linux's own means are missing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from dask_fleet.processes import lifeline, waiting
from tests.processes.support import all_gone, fork_server, run


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_end_of_a_child(has_pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as child:
            ended = asyncio.Event()
            waiting.when_ended(child, ended.set)
            await asyncio.sleep(0)
            assert not ended.is_set()
            assert child.stdin is not None
            child.stdin.close()
            await ended.wait()
            assert child.wait() == 1

    if not has_pidfd:
        monkeypatch.setattr(waiting, "_pidfd", lambda pid: None)
    run(main())


def test_server_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_pidfd", lambda pid: None)

    async def main() -> None:
        async with fork_server() as server:
            assert await server.run(os.getppid) == server.pid

    run(main())


def test_life_line_without_the_kernel() -> None:
    """A process that holds on to its parent by a thread ends with it."""
    text = """
import os, sys, time
from dask_fleet.processes import lifeline
sys.platform = "elsewhere"
reading, writing = os.pipe()
parent = os.getpid()
pid = os.fork()
if pid == 0:
    os.close(writing)
    lifeline.hold(reading, parent)
    print(os.getpid(), flush=True)
    time.sleep(60)
os.wait()
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=-1) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        assert all_gone([child])


def test_life_line_of_a_parent_that_has_gone() -> None:
    pid = os.fork()
    if pid == 0:
        try:
            lifeline.hold(0, parent=os.getpid())
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
