"""What the tests of requests share: a loop, the smallest cluster, patience."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from distributed import Worker

from dask_fleet import Cluster, LocalCluster

T = TypeVar("T")

#: Seconds; nothing here takes nearly as long unless it hangs.
LIMIT = 60.0

_QUIET = {
    "protocol": "inproc://",
    "dashboard": False,
    "dashboard_address": "127.0.0.1:0",
}


class Bare(Cluster):
    """All that an author must write: `scale_up`, with workers in this process."""

    #: What a worker is.
    kind: type[Worker] = Worker
    #: What was asked for, call by call.
    asked: tuple[tuple[str, ...], ...] = ()
    #: Workers that were started, newest last.
    born: tuple[Worker, ...] = ()
    starts: tuple[asyncio.Future[Worker], ...] = ()

    async def scale_up(self, workers: list[str]) -> None:
        self.asked = (*self.asked, tuple(workers))
        self.born = (*self.born, *map(self.worker, workers))
        newest = self.born[-len(workers) :]
        self.starts = (*self.starts, *(asyncio.ensure_future(one) for one in newest))

    def worker(self, name: str) -> Worker:
        return self.kind(
            self.scheduler_address,
            name=name,
            nthreads=1,
            memory_limit="1GiB",
            dashboard=False,
        )


@contextlib.asynccontextmanager
async def bare(kind: type[Bare] = Bare, **options: Any) -> AsyncIterator[Any]:
    """A cluster of that kind. Its workers share the loop, so they end before it."""
    cluster = kind(asynchronous=True, scheduler_options=_QUIET, **options)
    try:
        async with cluster:
            yield cluster
    finally:
        await asyncio.gather(*cluster.starts, return_exceptions=True)
        for worker in cluster.born:
            await worker.close(timeout=1, executor_wait=False, nanny=False)


def local(**options: Any) -> Any:
    """A LocalCluster in this process for use with `async with`."""
    quiet = {"processes": False, "dashboard_address": None, "threads_per_worker": 1}
    return LocalCluster(asynchronous=True, **{**quiet, **options})


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, on a loop of its own."""

    async def limited() -> T:
        return await asyncio.wait_for(main, LIMIT)

    return asyncio.run(limited())


async def until(true: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until something is so. For what cannot be awaited."""

    async def look() -> None:
        while not true():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(look(), limit)


def causes(cluster: Cluster) -> list[str]:
    """The history in short."""
    return [str(event.cause) for event in cluster.events]
