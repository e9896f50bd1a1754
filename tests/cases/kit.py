"""What a case uses inside its interpreter: a cluster, eyes and patience."""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from distributed import SchedulerPlugin

#: Where the tasks of `tasks.py` write one line for each execution.
LOG = os.path.abspath("executions.log")


def cluster_class() -> Any:
    """The class under test."""
    name = os.environ.get("FLEET_CASES_CLASS", "dask_fleet:LocalCluster")
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def start(**options: Any) -> Any:
    """A cluster as the cases want it: one thread a worker, dashboard on a free port."""
    return cluster_class()(
        **{"threads_per_worker": 1, "dashboard_address": ":0", **options}
    )


def hook(text: str, name: str = "hook") -> str:
    """A start-up hook for workers (`preload=`)."""
    path = Path(f"{name}.py").absolute()
    path.write_text(text, "utf-8")
    return str(path)


def refusal(call: Callable[[], object]) -> Exception | None:
    """What a call raises, for the test to judge."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # the judge is elsewhere
        return error
    return None


# ------------------------------------------------------------------------ patience


def until(predicate: Callable[[], object], limit: float, what: str = "") -> float:
    """Seconds until something is so. For what cannot be awaited."""
    begin = time.monotonic()
    while not predicate():
        if time.monotonic() - begin > limit:
            raise TimeoutError(f"not within {limit:.0f} s: {what or predicate}")
        time.sleep(0.05)
    return time.monotonic() - begin


def steady(
    predicate: Callable[[], object], seconds: float, limit: float, what: str = ""
) -> float:
    """Seconds until something has become so for good: it stays so for `seconds`."""
    begin = since = time.monotonic()
    while (now := time.monotonic()) - since < seconds:
        if not predicate():
            since = now
            if now - begin > limit:
                raise TimeoutError(f"not settled in {limit:.0f} s: {what or predicate}")
        time.sleep(0.1)
    return since - begin


# ---------------------------------------------------------------------------- eyes


def size(cluster: Any) -> int:
    """How many workers the scheduler itself has."""
    return len(cluster.scheduler.workers)


def addresses(cluster: Any) -> list[str]:
    """In the order of arrival: the last one is the newest."""
    return list(cluster.scheduler.workers)


def worker_processes() -> dict[int, str]:
    """Live processes below this one that are workers, and their command lines.

    Left out: multiprocessing's resource tracker, and a fork server, which is no worker
    itself; the workers that it forks are counted.
    """
    found = {}
    me = psutil.Process()
    for process in me.children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            parent = process.ppid()
            dead = process.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        served = "forkserver" in command or "dask_fleet" in command
        if dead or "resource_tracker" in command or (served and parent == me.pid):
            continue
        found[process.pid] = command
    return found


def both(cluster: Any) -> tuple[int, int]:
    """Workers that the scheduler has, worker processes that live."""
    return size(cluster), len(worker_processes())


class Watch(SchedulerPlugin):  # type: ignore[misc, unused-ignore]
    """Counts incarnations of workers as the scheduler meets them."""

    name = "case-watch"

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.added: list[str] = []
        self.removed: list[str] = []
        #: The size after each change, from the start of the watch.
        self.sizes = [size(cluster)]
        self.added.extend(addresses(cluster))
        cluster.loop.add_callback(cluster.scheduler.add_plugin, self)
        until(lambda: self.name in cluster.scheduler.plugins, 10, "the watch is on")

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.added.append(worker)
        self.sizes.append(len(scheduler.workers))

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        self.removed.append(worker)
        self.sizes.append(len(scheduler.workers) - (worker in scheduler.workers))


class Sampler:
    """Samples sizes and worker processes every 0.1 s, from a thread."""

    def __init__(self, cluster: Any, every: float = 0.1) -> None:
        self.cluster = cluster
        self.every = every
        self.times: list[float] = []
        self.sizes: list[int] = []
        self.processes: list[int] = []
        self.pids: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            pids = worker_processes().keys()
            self.times.append(time.monotonic())
            self.sizes.append(size(self.cluster))
            self.processes.append(len(pids))
            self.pids |= pids


# ------------------------------------------------------------------- execution log


def executions(log: str = LOG) -> Counter[str]:
    """How often each task of `tasks.py` has begun, by its number."""
    path = Path(log)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return Counter(line.split()[0] for line in lines)


def begun(log: str = LOG) -> int:
    """How many executions have begun."""
    return sum(executions(log).values())
