"""What the tests of the scheduler's side share: a scheduler and workers in one loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import dask.config
from distributed import Client, Scheduler, SchedulerPlugin, Worker
from distributed.core import Status
from distributed.scheduler import WorkerState

from dask_fleet.scheduler import FleetPlugin
from dask_fleet.scheduler.drain import Drains

T = TypeVar("T")

#: Seconds; nothing here takes nearly as long unless it hangs.
LIMIT = 60.0

#: The share of memory limits that results may fill, unless a test says otherwise.
FRACTION = 0.6

#: Limits of memory are for the choice only: this process is larger than any of them.
_NO_PAUSE = {
    f"distributed.worker.memory.{what}": False
    for what in ("target", "spill", "pause", "terminate")
}

_QUIET = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, on a loop of its own."""

    async def limited() -> T:
        return await asyncio.wait_for(main, LIMIT)

    return asyncio.run(limited())


class Eyes(SchedulerPlugin):
    """Wakes who waits for something about the scheduler, and counts."""

    name = "test-eyes"

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        #: How often each task went to a worker, and was computed.
        self.started: dict[Any, int] = {}
        self.computed: dict[Any, int] = {}
        #: Which workers each task went to.
        self.places: dict[Any, list[str]] = {}

    def transition(self, key: Any, start: str, finish: str, *_: Any, **kw: Any) -> None:
        if finish == "processing":
            self.started[key] = self.started.get(key, 0) + 1
        if (start, finish) == ("processing", "memory"):
            self.computed[key] = self.computed.get(key, 0) + 1
            self.places.setdefault(key, []).append(kw["worker"])
        self._changed.set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._changed.set()

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        self._changed.set()

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something is so; what is not told is looked at now and then."""
        while not true():
            self._changed.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 0.02)


class Side:
    """A scheduler with our plugin, some workers, a client, and short cuts."""

    def __init__(self, scheduler: Scheduler, client: Client) -> None:
        self.scheduler = scheduler
        self.client = client
        self.eyes = Eyes()
        self.workers: dict[str, Worker] = {}
        self._stack = contextlib.AsyncExitStack()
        scheduler.add_plugin(self.eyes)
        self.plugin: FleetPlugin = scheduler.plugins["fleet"]  # type: ignore[assignment]

    async def add(self, *names: str, **options: Any) -> None:
        """Start workers."""
        for name in names:
            worker = Worker(
                self.scheduler.address,
                name=name,
                **{"nthreads": 1, "memory_limit": 0, "dashboard": False, **options},
            )
            self.workers[name] = await worker
        await self.eyes.until(
            lambda: all(self.state(n).status is Status.running for n in names)
        )

    def state(self, name: str) -> WorkerState:
        return self.scheduler.workers[self.workers[name].address]

    def address(self, name: str) -> str:
        return str(self.workers[name].address)

    @property
    def names(self) -> set[str]:
        """Names of the workers that the scheduler has."""
        return {str(ws.name) for ws in self.scheduler.workers.values()}

    async def hold(self, *names: str, nbytes: int) -> Any:
        """A value of so many bytes that only these workers hold."""
        future = await self.client.scatter(
            b"x" * nbytes,
            workers=[self.address(names[0])],
            hash=False,
        )
        if names[1:]:
            places = [self.address(name) for name in names]
            await self.client.replicate([future], workers=places, n=len(names))
        return future

    def on(self, name: str, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Submit a task that begins on a worker and may run elsewhere."""
        return self.client.submit(
            function,
            *args,
            workers=[self.address(name)],
            allow_other_workers=True,
            pure=False,
            **kw,
        )

    async def rank(
        self, instances: Sequence[Sequence[str]], surplus: int, **options: Any
    ) -> dict[str, Any]:
        return await self.plugin._rankings.rank(
            instances, surplus, **{"fraction": FRACTION, **options}
        )

    async def ask(
        self, *names: str, timeout: float | None = None, fraction: float = FRACTION
    ) -> asyncio.Task[str]:
        """Ask an instance to leave; the task gives why it stays."""

        async def why() -> str:
            reasons = await self.leave(list(names), timeout=timeout, fraction=fraction)
            return reasons[names[0]]

        task = asyncio.create_task(why())
        await asyncio.sleep(0)
        assert names[0] in self.drains._departures
        return task

    @property
    def drains(self) -> Drains:
        return self.plugin._drains

    @property
    def plugins(self) -> list[str]:
        """Names of the scheduler's plugins."""
        return list(self.scheduler.plugins)

    async def leave(
        self,
        *instances: Sequence[str],
        timeout: float | None = None,
        fraction: float = FRACTION,
    ) -> dict[str, str]:
        """Let instances leave; return why each stays, once all have ended."""
        why: dict[str, str] = {}
        while left := [names for names in instances if names[0] not in why]:
            why |= (await self.drains.leave(left, timeout, fraction))["why"]
        return why

    async def close(self) -> None:
        await asyncio.gather(
            *(
                worker.close(timeout=5, executor_wait=False, nanny=False)
                for worker in self.workers.values()
            )
        )


@contextlib.asynccontextmanager
async def side(*names: str, **options: Any) -> AsyncIterator[Side]:
    """A scheduler with our plugin, and workers with these names."""
    with dask.config.set({**_NO_PAUSE, **options.pop("config", {})}):
        async with Scheduler(
            protocol="inproc://",
            validate=True,
            **{**_QUIET, **options.pop("scheduler", {})},
        ) as scheduler:
            await scheduler.register_scheduler_plugin(FleetPlugin(), idempotent=True)
            async with Client(scheduler.address, asynchronous=True) as client:
                one = Side(scheduler, client)
                try:
                    await one.add(*names, **options)
                    yield one
                finally:
                    await one.close()
                    # Only now: what is run again must not wait at a gate of tomorrow.
                    GATES.open_all()


class Gates:
    """Lets tasks, which run in threads of this process, wait for a word."""

    def __init__(self) -> None:
        self._gates: dict[str, threading.Event] = {}
        self.begun: dict[str, int] = {}
        self._lock = threading.Lock()

    def _gate(self, name: str) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(name, threading.Event())

    def open(self, name: str) -> None:
        self._gate(name).set()

    def open_all(self) -> None:
        """Open all gates, and forget them and who has come to them."""
        with self._lock:
            for gate in self._gates.values():
                gate.set()
            self._gates.clear()
            self.begun.clear()

    def pass_through(self, name: str) -> None:
        with self._lock:
            self.begun[name] = self.begun.get(name, 0) + 1
        self._gate(name).wait(LIMIT)


GATES = Gates()


def wait_at(gate: str, result: Any = None) -> Any:
    """A task that ends when its gate is opened."""
    GATES.pass_through(gate)
    return result
