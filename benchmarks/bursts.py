"""Speed under bursts: distributed's LocalCluster and dask_fleet's, both in one run.

    python benchmarks/bursts.py [--repeats N] [--json FILE] [--sides stock,fleet,fixed]

Three bursts of 200 tasks of 0.1 s, each followed by a pause of 6 s, under
`adapt(minimum=0, maximum=8)` with default settings and workers of one thread. A
fixed cluster of 8 is the line to compare with. Sides take turns; each run has an
interpreter of its own. What is measured:

makespan          from the first task sent to the last result of the third burst
process-seconds   number of live worker processes, integrated from the first task to
                  the end of the pause after the third burst
... until done    the same up to the last result
starts            worker processes that were seen, by process id
peak              most of them at once

Worker processes are counted from outside, so counting does not slow the manager: all
descendants of the manager's process, but for multiprocessing's resource tracker and
for a fork server, which runs no task (the workers that it forks are counted).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import psutil

BURSTS = 3
TASKS = 200
SECONDS = 0.1
PAUSE = 6.0
MAXIMUM = 8
SAMPLE = 0.1
LIMIT = 180.0

#: side -> (module of LocalCluster, adaptive)
SIDES = {
    "stock": ("distributed", True),
    "fleet": ("dask_fleet", True),
    "fixed": ("distributed", False),
    "fleet-fixed": ("dask_fleet", False),
}


def nap(number: int, seconds: float) -> int:
    """Run as a task."""
    time.sleep(seconds)
    return number


# ---------------------------------------------------------------- inside one side


def say(mark: str, **figures: object) -> None:
    print(json.dumps({"mark": mark, "at": time.time(), **figures}), flush=True)


@contextlib.contextmanager
def cluster_of(side: str) -> Iterator[Any]:
    module, adaptive = SIDES[side]
    cluster_class = getattr(__import__(module), "LocalCluster")  # noqa: B009
    workers = 0 if adaptive else MAXIMUM
    with cluster_class(
        n_workers=workers, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        if adaptive:
            cluster.adapt(minimum=0, maximum=MAXIMUM)
        yield cluster


def run_bursts(side: str) -> None:
    """Send the bursts and tell on stdout when each begins and ends."""
    from distributed import Client

    with cluster_of(side) as cluster, Client(cluster) as client:
        say("ready")
        for burst in range(BURSTS):
            say("sent", burst=burst)
            futures = client.map(nap, range(TASKS), seconds=SECONDS, pure=False)
            assert client.gather(futures) == list(range(TASKS))
            say("done", burst=burst)
            del futures
            time.sleep(PAUSE)
        say("over")


# -------------------------------------------------------------- seen from outside


class Census:
    """Counts the worker processes below one process, every `SAMPLE` seconds."""

    def __init__(self, manager: int) -> None:
        self.manager = psutil.Process(manager)
        self.samples: list[tuple[float, int]] = []
        self.pids: set[tuple[int, float]] = set()
        self._helpers: dict[tuple[int, float], bool] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Census:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE):
            try:
                workers = self._workers()
            except psutil.NoSuchProcess:
                return
            self.samples.append((time.time(), len(workers)))
            self.pids |= workers

    def _workers(self) -> set[tuple[int, float]]:
        found = set()
        for process in self.manager.children(recursive=True):
            identity = (process.pid, process.create_time())
            if identity not in self._helpers:
                helper = self._is_helper(process)
                if helper is None:
                    continue
                self._helpers[identity] = helper
            if not self._helpers[identity]:
                found.add(identity)
        return found

    def _is_helper(self, process: psutil.Process) -> bool | None:
        """Whether this runs no task; None if it cannot be told any more."""
        try:
            command = " ".join(process.cmdline())
            parent = process.ppid()
        except psutil.Error:
            return None
        if not command:  # not yet or no longer a program
            return None
        if "resource_tracker" in command:
            return True
        served = "forkserver" in command or "dask_fleet" in command
        return served and parent == self.manager.pid

    def process_seconds(self, start: float, end: float) -> float:
        total = 0.0
        for (at, count), (following, _) in zip(
            self.samples, self.samples[1:], strict=False
        ):
            total += count * max(0.0, min(following, end) - max(at, start))
        return total

    def first_worker(self, start: float) -> float | None:
        """Seconds from `start` until a worker process was there."""
        return next(
            (max(0.0, at - start) for at, n in self.samples if at >= start and n), None
        )


def measure(side: str) -> dict[str, Any]:
    """Run one side in an interpreter of its own and count from outside."""
    with tempfile.TemporaryFile("w+") as words:
        try:
            return _measure(side, words)
        except (RuntimeError, queue.Empty):
            words.seek(0)
            print(words.read()[-4000:], file=sys.stderr)
            raise


def _measure(side: str, words: IO[str]) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--side", side],
        stdout=subprocess.PIPE,
        stderr=words,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    output = process.stdout
    assert output is not None

    def read() -> None:
        for line in output:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    marks: list[dict[str, Any]] = []
    deadline = time.monotonic() + LIMIT
    try:
        with Census(process.pid) as census:
            while line := lines.get(timeout=max(0.1, deadline - time.monotonic())):
                if line.startswith("{"):
                    marks.append(json.loads(line))
                if marks and marks[-1]["mark"] == "over":
                    break
        process.wait(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    if not marks or marks[-1]["mark"] != "over":
        raise RuntimeError(f"{side} ended early with exit code {process.returncode}")

    sent = [mark["at"] for mark in marks if mark["mark"] == "sent"]
    done = [mark["at"] for mark in marks if mark["mark"] == "done"]
    over = marks[-1]["at"]
    return {
        "makespan": done[-1] - sent[0],
        "process-seconds": census.process_seconds(sent[0], over),
        "... until done": census.process_seconds(sent[0], done[-1]),
        "starts": len(census.pids),
        "peak": max((n for _, n in census.samples), default=0),
        "bursts": [end - begin for begin, end in zip(sent, done, strict=True)],
        "first worker": [census.first_worker(begin) for begin in sent],
    }


# ------------------------------------------------------------------------- report

FIGURES = ("makespan", "process-seconds", "... until done", "starts", "peak")


def report(runs: dict[str, list[dict[str, Any]]]) -> None:
    width = 18
    print(f"\n{'medians':<14}" + "".join(f"{name:>{width}}" for name in FIGURES))
    medians = {
        side: {name: statistics.median(run[name] for run in found) for name in FIGURES}
        for side, found in runs.items()
        if found
    }
    for side, figures in medians.items():
        cells = "".join(f"{figures[name]:>{width}.1f}" for name in FIGURES)
        print(f"{side:<14}{cells}")
    if {"stock", "fleet"} <= medians.keys():
        ratio: Callable[[str], float] = lambda name: (  # noqa: E731
            medians["fleet"][name] / medians["stock"][name]
        )
        cells = "".join(f"{ratio(name):>{width}.2f}" for name in FIGURES)
        print(f"{'fleet / stock':<14}{cells}")
        wanted = ("<= 0.70", "<= 1.00", "<= 1.00", "<= 1.00")
        print(f"{'wanted':<14}" + "".join(f"{text:>{width}}" for text in wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--repeats", type=int, default=1, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="all figures of all runs")
    parser.add_argument("--sides", default="stock,fleet,fixed", metavar="A,B")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_bursts(options.side)
        return
    sides = options.sides.split(",")
    if unknown := set(sides) - SIDES.keys():
        parser.error(f"unknown sides {sorted(unknown)}; there are {sorted(SIDES)}")

    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for repeat in range(options.repeats):
        for side in sides:
            run = measure(side)
            runs[side].append(run)
            bursts = " ".join(f"{seconds:.1f}" for seconds in run["bursts"])
            print(
                f"{repeat + 1}/{options.repeats} {side:<12}"
                f" makespan {run['makespan']:5.1f} s  bursts {bursts} s"
                f"  process-seconds {run['process-seconds']:6.1f}"
                f"  starts {run['starts']:3}  peak {run['peak']}",
                flush=True,
            )
    report(runs)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(runs, file, indent=1)


if __name__ == "__main__":
    main()
