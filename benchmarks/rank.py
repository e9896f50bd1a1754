"""Scaling down at scale: who leaves, and moving what they hold.

    python benchmarks/rank.py [--repeats N] [--json FILE] [--parts rank,idle,retire]

rank    A scheduler's state with 10,000 workers in 1,250 instances, 1,000,000 results
        in memory (one in ten has two copies) and up to 1,000,000 queued tasks, built
        without real workers. Asked is who should leave for a surplus of 1,000 workers.
        Measured are the time until the answer, and the longest time for which the
        event loop was held without a break; the limits are 500 ms and 50 ms.
idle    What the plugin costs a scheduler while nobody leaves: the time of a transition
        with and without it, in turns.
retire  Eight workers that hold 2 GB in all hand it over to four others. The scheduler's
        own `retire_workers` and ours take turns in one cluster of real processes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import dask.config
from distributed import Client, LocalCluster, Scheduler, SchedulerPlugin
from distributed.core import Status
from distributed.scheduler import WorkerState

from dask_fleet.scheduler import FleetPlugin

T = TypeVar("T")

WORKERS, PER_INSTANCE, SURPLUS = 10_000, 8, 1_000
RESULTS, QUEUED = 1_000_000, 1_000_000
FRACTION = 0.6

LEAVERS, TAKERS = 8, 4
HELD, CHUNK = 2_000_000_000, 2_000_000

#: The scheduler looks after its workers, and there are none.
NOTHING_OF_ITS_OWN = {
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": None,
    "distributed.admin.event-loop-monitor-interval": "1h",
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.interval": "1h",
}


# ------------------------------------------------------------------- a made-up state


class Invented:
    """A scheduler whose state is filled in by hand."""

    def __init__(self, scheduler: Scheduler, seed: int = 1) -> None:
        self.scheduler = scheduler
        self._random = random.Random(seed)
        self._workers: list[WorkerState] = []
        self._tasks = 0

    @property
    def instances(self) -> list[list[str]]:
        names = [str(ws.name) for ws in self._workers]
        return [
            names[begin : begin + PER_INSTANCE]
            for begin in range(0, len(names), PER_INSTANCE)
        ]

    def add_workers(self, count: int) -> None:
        for number in range(count):
            ws = WorkerState(
                address=f"tcp://127.0.0.1:{number}",
                status=Status.running,
                pid=number,
                name=str(number),
                nthreads=2,
                memory_limit=8 * 10**9,
                local_directory="",
                nanny=None,
                server_id=f"Worker-{number}",
                scheduler=self.scheduler,
            )
            self.scheduler.workers[ws.address] = ws
            self.scheduler.running.add(ws)
            self.scheduler.aliases[ws.name] = ws.address
            self._workers.append(ws)
        self.scheduler.total_nthreads = 2 * count

    def add_results(self, count: int, copied: float = 0.1) -> None:
        for _ in range(count):
            ts = self._new("result", "memory")
            ts.set_nbytes(self._random.randrange(1, 10**6))
            copies = 2 if self._random.random() < copied else 1
            for ws in self._random.sample(self._workers, copies):
                self.scheduler.add_replica(ts, ws)

    def add_queued(self, count: int) -> None:
        for number in range(count):
            ts = self._new("queued", "queued")
            ts.priority = (number,)
            self.scheduler.queued.add(ts)

    def make_busy(self, count: int) -> None:
        """Let some workers run a task each."""
        for ws in self._random.sample(self._workers, count):
            ts = self._new("running", "processing")
            ts.processing_on = ws
            ws.processing.add(ts)

    def _new(self, prefix: str, state: Any) -> Any:
        self._tasks += 1
        return self.scheduler.new_task(f"{prefix}-{self._tasks}", None, state)


async def with_longest_turn(call: Awaitable[T]) -> tuple[T, float, float]:
    """The result of a call, its seconds, and the longest turn of the loop meanwhile."""
    longest = 0.0
    ended = asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not ended.is_set():
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    begin = time.perf_counter()
    result = await call
    seconds = time.perf_counter() - begin
    ended.set()
    await watching
    return result, seconds, longest


async def invented(repeats: int) -> list[dict[str, Any]]:
    rows = []
    with dask.config.set(NOTHING_OF_ITS_OWN):
        scheduler = Scheduler(
            protocol="inproc://", dashboard=False, dashboard_address="127.0.0.1:0"
        )
        async with scheduler:
            plugin = FleetPlugin()
            await scheduler.register_scheduler_plugin(plugin, idempotent=True)
            state = Invented(scheduler)
            state.add_workers(WORKERS)
            state.make_busy(WORKERS // 2)
            state.add_results(RESULTS)
            for queued in (0, QUEUED):
                state.add_queued(queued)
                gc.collect()
                for _ in range(repeats):
                    answer, seconds, longest = await with_longest_turn(
                        plugin._rankings.rank(state.instances, SURPLUS, FRACTION)
                    )
                    assert len(answer["workers"]) == SURPLUS, answer["detail"]
                    rows.append(
                        {"queued": queued, "seconds": seconds, "longest": longest}
                    )
            scheduler.workers.clear()
            scheduler.running.clear()
    return rows


def report_rank(rows: list[dict[str, Any]]) -> None:
    print(
        f"\nwho leaves: {WORKERS:,} workers in {WORKERS // PER_INSTANCE:,} instances, "
        f"{RESULTS:,} results, a surplus of {SURPLUS:,}"
    )
    print(f"{'queued tasks':>14} {'answer':>10} {'longest turn':>14}")
    for queued in sorted({row["queued"] for row in rows}):
        some = [row for row in rows if row["queued"] == queued]
        seconds = max(row["seconds"] for row in some)
        longest = max(row["longest"] for row in some)
        print(f"{queued:>14,} {seconds * 1e3:>7.0f} ms {longest * 1e3:>11.1f} ms")
    print(f"{'limit':>14} {500:>7} ms {50:>11} ms   (the worst of all repeats)")


# ------------------------------------------------------------------ while nobody leaves


async def transitions(repeats: int) -> list[dict[str, Any]]:
    """Seconds of a transition of a task, with and without the plugin, in turns."""
    rows = []
    with dask.config.set(NOTHING_OF_ITS_OWN):
        scheduler = Scheduler(
            protocol="inproc://", dashboard=False, dashboard_address="127.0.0.1:0"
        )
        async with scheduler:
            plugin = FleetPlugin()
            await scheduler.register_scheduler_plugin(plugin, idempotent=True)
            state = Invented(scheduler)
            keys = [state._new("task", "released").key for _ in range(20_000)]
            for _ in range(repeats):
                for side in ("without", "with"):
                    if side == "without":
                        scheduler.remove_plugin(name=plugin.name)
                    begin = time.perf_counter()
                    for key in keys:
                        scheduler.transitions({key: "forgotten"}, "benchmark")
                    seconds = (time.perf_counter() - begin) / len(keys)
                    rows.append({"side": side, "seconds": seconds})
                    keys = [state._new("task", "released").key for _ in keys]
                    if side == "without":
                        scheduler.add_plugin(plugin, name=plugin.name)
    return rows


def report_idle(rows: list[dict[str, Any]]) -> None:
    own = FleetPlugin.transition is not SchedulerPlugin.transition
    print("\nwhile nobody leaves: a transition of a task")
    print(f"the plugin {'has a' if own else 'has no'} transition hook of its own")
    for side in ("without", "with"):
        some = [row["seconds"] for row in rows if row["side"] == side]
        print(f"{side:>10} the plugin {statistics.median(some) * 1e6:>7.2f} us")


# ------------------------------------------------------------------------- real workers


def make(number: int) -> bytes:
    return bytes([number % 251]) * CHUNK


async def retire(repeats: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    memory = {
        f"distributed.worker.memory.{what}": False
        for what in ("target", "spill", "pause", "terminate")
    }
    with dask.config.set(memory):
        async with (
            LocalCluster(
                n_workers=LEAVERS + TAKERS,
                threads_per_worker=1,
                dashboard_address=None,
                asynchronous=True,
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            scheduler = cluster.scheduler
            plugin = FleetPlugin()
            await scheduler.register_scheduler_plugin(plugin, idempotent=True)
            sides = {"stock": stock_retire, "fleet": fleet_retire}
            for turn in range(2 * repeats + 2):
                side = list(sides)[turn % 2]
                seconds, moved = await one_turn(scheduler, client, plugin, sides[side])
                if turn >= 2:  # the first of each warms connections up
                    rows.append({"side": side, "seconds": seconds, "moved": moved})
    return rows


Way = Callable[[Scheduler, FleetPlugin, list[WorkerState]], Awaitable[None]]


async def one_turn(
    scheduler: Scheduler, client: Client, plugin: FleetPlugin, way: Way
) -> tuple[float, int]:
    """Fill the workers, let them hand over; return the seconds and the bytes moved."""
    leavers = list(scheduler.workers.values())[:LEAVERS]
    futures = [
        client.submit(make, number, pure=False, workers=[ws.address])
        for number in range(HELD // CHUNK // LEAVERS)
        for ws in leavers
    ]
    await client.gather([client.submit(len, future) for future in futures])
    addresses = [ws.address for ws in scheduler.workers.values()][LEAVERS:]
    before = await received(client, addresses)
    begin = time.perf_counter()
    await way(scheduler, plugin, leavers)
    seconds = time.perf_counter() - begin
    moved = await received(client, addresses) - before
    assert all(
        any(ws.address in addresses for ws in scheduler.tasks[f.key].who_has or ())
        for f in futures
    )
    await back_to_work(scheduler, plugin, leavers)
    for future in futures:
        future.release()
    while scheduler.tasks:
        await asyncio.sleep(0.01)
    return seconds, moved


async def received(client: Client, addresses: list[str]) -> int:
    totals = await client.run(
        lambda dask_worker: sum(
            entry["total"] for entry in dask_worker.transfer_incoming_log
        ),
        workers=addresses,
    )
    return sum(totals.values())


async def stock_retire(
    scheduler: Scheduler, plugin: FleetPlugin, leavers: list[WorkerState]
) -> None:
    retired = await scheduler.retire_workers(
        workers=[ws.address for ws in leavers], close_workers=False, remove=False
    )
    assert len(retired) == LEAVERS


async def fleet_retire(
    scheduler: Scheduler, plugin: FleetPlugin, leavers: list[WorkerState]
) -> None:
    left = [[str(ws.name)] for ws in leavers]
    while left:
        why = (await plugin._drains.leave(left, None, float("inf")))["why"]
        assert not any(why.values()), why
        left = [names for names in left if names[0] not in why]


async def back_to_work(
    scheduler: Scheduler, plugin: FleetPlugin, leavers: list[WorkerState]
) -> None:
    plugin._drains.recall([[str(ws.name)] for ws in leavers])
    for ws in leavers:
        scheduler.worker_send(
            ws.address,
            {
                "op": "worker-status-change",
                "status": Status.running.name,
                "stimulus_id": "benchmark",
            },
        )
    while not all(ws.status is Status.running for ws in leavers):
        await asyncio.sleep(0.01)


def report_retire(rows: list[dict[str, Any]]) -> None:
    print(
        f"\n{LEAVERS} workers hand {HELD / 1e9:g} GB over to {TAKERS} others, "
        f"{CHUNK / 1e6:g} MB a result"
    )
    print(f"{'side':>10} {'median':>10} {'worst':>10} {'bytes moved':>16}")
    for side in ("stock", "fleet"):
        some = [row for row in rows if row["side"] == side]
        seconds = [row["seconds"] for row in some]
        moved = max(row["moved"] for row in some)
        print(
            f"{side:>10} {statistics.median(seconds):>8.2f} s "
            f"{max(seconds):>8.2f} s {moved:>16,}"
        )


PARTS: dict[str, tuple[Any, Any]] = {
    "rank": (invented, report_rank),
    "idle": (transitions, report_idle),
    "retire": (retire, report_retire),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="write all figures there")
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    figures = {}
    for part in options.parts.split(","):
        measure, report = PARTS[part]
        figures[part] = asyncio.run(measure(options.repeats))
        report(figures[part])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
