"""What the tests of faults share: real clusters in this process, eyes, patience."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import dask
from distributed import Client

from dask_fleet import Cluster, LocalCluster
from dask_fleet.core import Cause
from tests.cluster.support import LIMIT, events_of, run, until

__all__ = ["LIMIT", "events_of", "run", "until"]

#: A worker that is missed by the scheduler alone is not given up in these tests: what
#: is noticed in time was noticed elsewhere.
NEVER_MISSED = {
    "distributed.deploy.lost-worker-timeout": "1 hour",
    # A task that ends its worker is told of the first time.
    "distributed.scheduler.allowed-failures": 0,
}


@contextlib.asynccontextmanager
async def local(**options: Any) -> AsyncIterator[Any]:
    """An asynchronous cluster of worker processes."""
    quiet = {"threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.config.set(NEVER_MISSED):
        async with LocalCluster(asynchronous=True, **{**quiet, **options}) as cluster:
            yield cluster


@contextlib.asynccontextmanager
async def client_of(cluster: LocalCluster) -> AsyncIterator[Client]:
    """A client that is nobody's default."""
    async with Client(cluster, asynchronous=True, set_as_default=False) as client:
        yield client


def pid_of(cluster: LocalCluster, name: str) -> int:
    """The process of a worker."""
    pid: int = cluster.workers[name].pid  # type: ignore[union-attr]
    return pid


def told(cluster: Cluster, cause: Cause) -> str:
    """Everything that the history says for one cause."""
    return "\n".join(event.sentence for event in events_of(cluster, cause))


def hook(folder: Path, text: str, name: str = "hook") -> str:
    """A start-up hook for workers (`preload=`)."""
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    return str(path)


async def soon(true: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait for something that no event tells of."""

    async def look() -> None:
        while not true():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), limit)
