"""Speed and memory of starting workers: distributed's LocalCluster and dask_fleet's.

    python benchmarks/startup.py [--repeats N] [--json FILE] [--check]

Both sides in one run, taking turns; every measurement has an interpreter of its own
and both classes get the same arguments: 8 workers of 1 thread, no dashboard. The
medians are compared. What is measured:

first start   LocalCluster(n_workers=8) until it returns, with 8 workers
scale 1 -> 8  scale(8) on a running cluster of 1 until the scheduler has seen 8
close         close() of 8 idle workers
memory        sum of the proportional set sizes (PSS) of all child processes of 8 idle
              workers, but for multiprocessing's resource tracker: the workers, and
              with dask_fleet the fork server too
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SIDES = {"stock": "distributed", "fleet": "dask_fleet"}
WORKERS = 8
#: Seconds for workers to come to rest.
REST = 1.5
#: Seconds after which a measurement has hung.
LIMIT = 120

#: figure -> (title, unit, highest ratio that is good)
FIGURES = {
    "first_start": ("first start of 8", "s", 0.4),
    "scale": ("scale 1 -> 8", "s", 0.2),
    "close": ("close of 8", "s", 1.0),
    "memory": ("memory of 8 idle", "MiB", 0.6),
}


# ------------------------------------------------------- inside one interpreter


def start(side: str, workers: int) -> Any:
    """The constructor under test, and no more than that."""
    cluster_class = importlib.import_module(SIDES[side]).LocalCluster
    return cluster_class(
        n_workers=workers, threads_per_worker=1, dashboard_address=None
    )


def measure_first(side: str) -> dict[str, float]:
    """First start, memory at rest, close."""
    prepare(side)
    begin = time.perf_counter()
    cluster = start(side, WORKERS)
    started = time.perf_counter() - begin
    assert len(cluster.scheduler.workers) == WORKERS
    time.sleep(REST)
    memory = memory_of_children()
    begin = time.perf_counter()
    cluster.close()
    closed = time.perf_counter() - begin
    return {"first_start": started, "close": closed, "memory": memory}


def measure_scale(side: str) -> dict[str, float]:
    """From one worker to eight."""
    prepare(side)
    cluster = start(side, 1)
    time.sleep(REST)
    complete = when_complete(cluster)
    begin = time.perf_counter()
    cluster.scale(WORKERS)
    assert complete.wait(LIMIT)
    scaled = time.perf_counter() - begin
    cluster.close()
    return {"scale": scaled}


def prepare(side: str) -> None:
    """Import, and let each side load what it loads late."""
    _ = importlib.import_module(SIDES[side]).LocalCluster


def when_complete(cluster: Any) -> threading.Event:
    """An event that is set once the scheduler has seen all workers."""
    from distributed import SchedulerPlugin

    complete = threading.Event()

    class Watch(SchedulerPlugin):
        def add_worker(self, scheduler: Any, worker: str) -> None:
            if len(scheduler.workers) == WORKERS:
                complete.set()

    async def add() -> None:
        cluster.scheduler.add_plugin(Watch())

    cluster.sync(add)
    return complete


def memory_of_children() -> float:
    """Sum of the PSS of all descendants, in MiB."""
    import psutil

    total = 0
    for child in psutil.Process().children(recursive=True):
        if "multiprocessing.resource_tracker" in " ".join(child.cmdline()):
            continue
        rollup = Path(f"/proc/{child.pid}/smaps_rollup").read_text()
        (line,) = (line for line in rollup.splitlines() if line.startswith("Pss:"))
        total += int(line.split()[1])
    return total / 1024


# ------------------------------------------------------------------ all of them


def measured(side: str, what: str) -> dict[str, float]:
    """Measure in an interpreter of its own."""
    ended = subprocess.run(
        [sys.executable, __file__, "--measure", side, what],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"{side}, {what}: exit code {ended.returncode}\n{ended.stderr}")
    figures: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return figures


def run(repeats: int) -> dict[str, dict[str, list[float]]]:
    """All values of all figures: figure -> side -> values."""
    values: dict[str, dict[str, list[float]]] = {
        figure: {side: [] for side in SIDES} for figure in FIGURES
    }
    for number in range(repeats):
        for side in list(SIDES)[:: 1 if number % 2 == 0 else -1]:
            for what in ("first", "scale"):
                for figure, value in measured(side, what).items():
                    values[figure][side].append(value)
        print(f"{number + 1} of {repeats}", file=sys.stderr)
    return values


def summary(values: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    from statistics import median

    rows = []
    for figure, (title, unit, target) in FIGURES.items():
        stock, fleet = (median(values[figure][side]) for side in SIDES)
        rows.append(
            {
                "figure": title,
                "unit": unit,
                "stock": stock,
                "fleet": fleet,
                "ratio": fleet / stock,
                "target": target,
                "good": fleet / stock <= target,
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'':18}{'distributed':>14}{'dask_fleet':>14}{'ratio':>8}{'target':>8}")
    for row in rows:
        digits = 3 if row["unit"] == "s" else 0
        both = "".join(
            f"{row[side]:>{13 - len(row['unit'])}.{digits}f} {row['unit']}"
            for side in SIDES
        )
        verdict = "" if row["good"] else "  missed"
        print(
            f"{row['figure']:18}{both}{row['ratio']:8.2f}{row['target']:8.1f}{verdict}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write all values to FILE")
    parser.add_argument(
        "--check", action="store_true", help="fail if a target is missed"
    )
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        side, what = options.measure
        measure = {"first": measure_first, "scale": measure_scale}[what]
        with contextlib.redirect_stdout(sys.stderr):
            figures = measure(side)
        print(json.dumps(figures))
        return 0
    values = run(options.repeats)
    rows = summary(values)
    show(rows)
    if options.json:
        Path(options.json).write_text(
            json.dumps({"summary": rows, "values": values}, indent=2)
        )
    return int(options.check and not all(row["good"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
