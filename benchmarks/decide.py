"""How long one decision takes, over many instances.

python benchmarks/decide.py [--instances N,N] [--repeats N]

Each situation is decided from a ready snapshot; what is timed is ``decide`` alone, with
the garbage collector as it is. The figure is the median.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

from dask_fleet.core import (
    Accepted,
    Ended,
    Ending,
    EndingKind,
    Fleet,
    Ranked,
    Snapshot,
    decide,
)


def planned(count: int) -> Snapshot:
    """All of them have to be planned and asked for."""
    fleet = Fleet()
    fleet.set_target(count, now=0.0)
    return fleet.snapshot(0.0, frozenset())


def requested(count: int) -> Fleet:
    """All of them are asked for and accepted."""
    fleet = Fleet()
    fleet.set_target(count, now=0.0)
    fleet.commit(decide(fleet.snapshot(0.0, frozenset())))
    fleet.apply(Accepted(tuple(fleet.instances)), now=0.1)
    return fleet


def arriving(count: int) -> Snapshot:
    """All of them arrive at the same moment."""
    fleet = requested(count)
    return fleet.snapshot(0.2, frozenset(fleet.plan))


def arrived(count: int) -> Fleet:
    """All of them are there."""
    fleet = requested(count)
    fleet.commit(decide(fleet.snapshot(0.2, frozenset(fleet.plan))))
    return fleet


def steady(count: int) -> Snapshot:
    """Nothing has changed."""
    fleet = arrived(count)
    return fleet.snapshot(20.0, frozenset(fleet.plan))


def shrinking(count: int) -> Snapshot:
    """Half of them leave, as a ranking says."""
    fleet = arrived(count)
    seen = frozenset(fleet.plan)
    fleet.set_target(count // 2, now=20.0)
    fleet.commit(decide(fleet.snapshot(20.0, seen)))
    fleet.apply(Ranked(count // 2, tuple(sorted(seen))), now=20.1)
    return fleet.snapshot(20.1, seen)


def dying(count: int) -> Snapshot:
    """A tenth of them has died."""
    fleet = arrived(count)
    seen = frozenset(fleet.plan)
    dead = list(fleet.instances)[::10]
    for token in dead:
        fleet.apply(Ended(token, Ending(EndingKind.CRASHED, "exit code 1")), now=20.0)
    return fleet.snapshot(20.0, seen - set(dead))


SITUATIONS: dict[str, Callable[[int], Snapshot]] = {
    "steady": steady,
    "all planned": planned,
    "all arrive": arriving,
    "half leave": shrinking,
    "a tenth died": dying,
}


def time_of(snapshot: Snapshot, repeats: int) -> float:
    """Return the median time of a decision, in milliseconds."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        decide(snapshot)
        times.append((perf_counter() - begin) * 1000)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", default="10000,100000")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    counts = [int(text) for text in options.instances.split(",")]
    print("median of one decision, in ms", *(f"{count:>12,}" for count in counts))
    for name, make in SITUATIONS.items():
        figures = [time_of(make(count), options.repeats) for count in counts]
        print(f"{name:<29}", *(f"{figure:>12.1f}" for figure in figures))


if __name__ == "__main__":
    main()
