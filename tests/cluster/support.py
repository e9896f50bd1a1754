"""What the tests of clusters share: a loop, a cluster that is quick, eyes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from dask_fleet.cluster import Cluster
from dask_fleet.core import Cause, Event
from dask_fleet.testing.fake_manager import FakeCluster

T = TypeVar("T")

#: Seconds; nothing here takes nearly as long unless it hangs.
LIMIT = 60.0

ROOT = Path(__file__).resolve().parents[2]

TOKEN = "FLEET_TEST_TOKEN"


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, on a loop of its own."""

    async def limited() -> T:
        return await asyncio.wait_for(main, LIMIT)

    return asyncio.run(limited())


@contextlib.asynccontextmanager
async def fake(
    kind: type[FakeCluster] = FakeCluster, **options: Any
) -> AsyncIterator[FakeCluster]:
    """An asynchronous cluster of workers in this process."""
    async with kind(asynchronous=True, **options) as cluster:
        yield cluster


async def until(cluster: Cluster, true: Callable[[], bool]) -> None:
    """Wait until something holds that the cluster would notice."""
    await asyncio.wait_for(cluster._control.pulse.until(true), LIMIT)


def events_of(cluster: Cluster, cause: Cause) -> list[Event]:
    return [event for event in cluster.events if event.cause is cause]


# ----------------------------------------------------------------------- processes


def outcome(
    command: Sequence[str], limit: float = LIMIT
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a program to its end; also return what is left of it a little later."""
    with marked() as (env, token):
        done = subprocess.run(
            [sys.executable, *command],
            env=env,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        return done, left_of(token)


@contextlib.contextmanager
def marked() -> Iterator[tuple[dict[str, str], str]]:
    """An environment that all descendants can be known by; kill them in the end."""
    token = uuid.uuid4().hex
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        yield {**os.environ, TOKEN: token, "PYTHONPATH": path}, token
    finally:
        for process in _found(token):
            with contextlib.suppress(psutil.Error):
                process.kill()


def left_of(token: str, within: float = 10) -> list[str]:
    """The processes with this token that do not end within a time."""
    end = time.monotonic() + within
    found = _found(token)
    for process in found:
        _wait(process.pid, end)
    return [_command(process) for process in _found(token)]


def _found(token: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(TOKEN) == token:
                found.append(process)
    return found


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return f"process {process.pid}"


def _wait(pid: int, end: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        finally:
            os.close(descriptor)
