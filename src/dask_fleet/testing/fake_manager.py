"""A cluster whose resource manager is made up: it does what it is told to do wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from distributed import Worker

from dask_fleet.cluster import Cluster

_QUIET = {
    "protocol": "inproc://",
    "dashboard": False,
    "dashboard_address": "127.0.0.1:0",
}


class FakeCluster(Cluster):
    """A real scheduler and real workers, all in this process.

    Starting a worker takes milliseconds, so a test may start many. Between them and
    the cluster stands a resource manager whose faults are switched on and off by
    setting attributes, at any time and from any thread.

    Parameters
    ----------
    options
        As for :class:`~dask_fleet.Cluster`.

    Attributes
    ----------
    delay
        Seconds from the acceptance of a start to its beginning.
    refuse
        Why starts are refused; ``None`` to accept them. Or a function that says so for
        each name.
    lose
        Tells of a name whether its start is accepted and then forgotten.
    tells
        The resource manager tells at once when a worker has ended.
    calls
        Every call of a hook so far: its name and the names it was given.
    before
        Awaited before a hook does its work; it may raise, or never return.

    Examples
    --------
    >>> with FakeCluster(n_workers=2) as cluster:
    ...     cluster.refuse = "the quota is used up"
    ...     sorted(cluster.observed)
    ['0', '1']
    """

    delay: float = 0.0
    refuse: str | Callable[[str], str | None] | None = None
    tells: bool = True

    def __init__(self, **options: Any) -> None:
        self.lives: dict[str, asyncio.Task[None]] = {}
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        scheduler_options = {**_QUIET, **(options.pop("scheduler_options", None) or {})}
        super().__init__(scheduler_options=scheduler_options, **options)

    def lose(self, name: str) -> bool:
        """Tell whether a start is accepted and then forgotten."""
        return False

    async def before(self, hook: str, names: list[str]) -> None:
        """Do nothing, and let the hook go on."""

    async def scale_up(self, workers: list[str]) -> dict[str, str]:
        """Start workers, unless told otherwise."""
        self.calls.append(("scale_up", tuple(workers)))
        await self.before("scale_up", workers)
        refused = {name: why for name in workers if (why := self._refusal(name))}
        for name in workers:
            if name not in refused and not self.lose(name):
                self.lives[name] = asyncio.create_task(self._live(name))
        return refused

    def _refusal(self, name: str) -> str | None:
        return self.refuse(name) if callable(self.refuse) else self.refuse

    async def scale_down(self, workers: list[str]) -> None:
        """End workers, and starts that are under way."""
        self.calls.append(("scale_down", tuple(workers)))
        await self.before("scale_down", workers)
        await self._end(workers)

    async def clean_up(self, limit: float) -> None:
        """End everything."""
        await self._end(list(self.lives))

    def vanish(self, name: str) -> None:
        """End a worker, or its start, behind the cluster's back."""
        if self.asynchronous:
            self._cancel([name])
        else:
            self.loop.add_callback(self._cancel, [name])  # type: ignore[union-attr]

    async def _live(self, name: str) -> None:
        """Start one worker and follow it to its end."""
        try:
            await asyncio.sleep(self.delay)
            worker = Worker(
                self.scheduler_address,
                name=name,
                nthreads=1,
                memory_limit=0,
                dashboard=False,
            )
            try:
                await worker
                await worker.finished()
            finally:
                await worker.close(timeout=1, executor_wait=False, nanny=False)
        finally:
            del self.lives[name]
            if self.tells:
                self.worker_ended(name, "it is no more")

    def _cancel(self, names: list[str]) -> list[asyncio.Task[None]]:
        ending = [self.lives[name] for name in names if name in self.lives]
        for life in ending:
            life.cancel()
        return ending

    async def _end(self, names: list[str]) -> None:
        ending = self._cancel(names)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*ending, return_exceptions=True)
