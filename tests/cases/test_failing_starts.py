"""R17, R18, R19, R31: what cannot start is tried a few times, told, cleaned up."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

from tests.cases import kit
from tests.cases.harness import bound, run

#: Every start fails; each process writes when it did.
BROKEN = """
import os, time
with open({log!r}, "a") as file:
    file.write(f"{{os.getpid()}} {{time.time()}}\\n")
raise RuntimeError("the hook says no")
"""

#: Exactly one start fails: that of the second process.
SECOND_FAILS = """
import os
with open({log!r}, "a") as file:
    file.write(f"{{os.getpid()}} 0\\n")
with open({log!r}) as file:
    seen = list(dict.fromkeys(line.split()[0] for line in file))
if seen.index(str(os.getpid())) == 1:
    raise RuntimeError("the hook says no")
"""


def tries() -> list[float]:
    """When each process first ran the hook; a hook may be run twice in one."""
    first: dict[str, float] = {}
    path = Path(kit.LOG)
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        pid, at = line.split()
        first.setdefault(pid, float(at))
    return list(first.values())


def nothing_starts() -> dict[str, Any]:
    preload = kit.hook(BROKEN.format(log=kit.LOG))
    begin = time.monotonic()
    error = kit.refusal(lambda: kit.start(n_workers=2, preload=preload))
    return {
        "seconds": time.monotonic() - begin,
        "error": str(error),
        "raised": error is not None,
        "processes": list(kit.worker_processes().values()),
    }


def test_r17_nothing_can_start() -> None:
    """The constructor raises soon, in the hook's own words, and leaves nothing."""
    outcome = run(nothing_starts)
    assert outcome.value["raised"]
    assert "the hook says no" in outcome.value["error"]
    assert outcome.value["seconds"] <= bound(10)
    assert outcome.value["processes"] == []
    assert len(outcome.err_lines) < 20
    assert outcome.left == ()


def one_fails() -> dict[str, Any]:
    preload = kit.hook(SECOND_FAILS.format(log=kit.LOG))
    with kit.start(n_workers=1, preload=preload) as cluster, cluster.get_client():
        cluster.scale(4)
        kit.until(lambda: kit.both(cluster) == (4, 4), bound(30), "the retry")
        cluster.scale(4)
        kit.steady(lambda: kit.both(cluster) == (4, 4), seconds=2, limit=bound(10))
        tried = len(tries())
        cluster.scale(2)
        kit.until(lambda: kit.both(cluster) == (2, 2), bound(20))
        told = "\n".join(str(event) for event in cluster.events)
    return {"tried": tried, "told": told, "status": cluster.status.name}


def test_r18_one_of_four_fails() -> None:
    """Only the missing one is tried again, by itself; later calls are not disturbed."""
    outcome = run(one_fails)
    assert outcome.value["tried"] == 5
    assert "the hook says no" in outcome.value["told"]
    assert outcome.value["status"] == "closed"
    assert len(outcome.err_lines) < 20
    assert outcome.left == ()


def broken_environment() -> dict[str, Any]:
    preload = kit.hook(BROKEN.format(log=kit.LOG))
    with kit.start(n_workers=0, preload=preload) as cluster, cluster.get_client():
        handle = cluster.adapt(minimum=2, maximum=4, interval="0.5s")
        kit.steady(lambda: True, seconds=35, limit=35)
        return {
            "tries": tries(),
            "health": cluster.state.health,
            "told": cluster.explain(),
            "loop": handle.state,
            "requested": len(cluster.requested),
        }


def test_r19_broken_environment_under_adaptive() -> None:
    """A bounded number of tries, later and later ones, then a state that says why."""
    outcome = run(broken_environment)
    outcome.clean()
    value = outcome.value
    times = value["tries"]
    assert 2 <= len(times) <= 10
    pauses = [late - early for early, late in itertools.pairwise(times)]
    # The starts of one attempt come together.
    waits = [pause for pause in pauses if pause > 0.3]
    assert waits == sorted(waits), waits
    assert value["health"] in ("failed", "degraded")
    assert "the hook says no" in value["told"]
    assert value["loop"] == "running"


def waiting_in_vain() -> dict[str, Any]:
    preload = kit.hook(BROKEN.format(log=kit.LOG))
    with kit.start(n_workers=0, preload=preload) as cluster, cluster.get_client():
        cluster.scale(2)
        begin = time.monotonic()
        error = kit.refusal(lambda: cluster.wait_for_workers(2))
        seconds = time.monotonic() - begin
        return {
            "error": str(error),
            "seconds": seconds,
            "log": str(cluster.get_logs()["Cluster"]),
        }


def test_r31_waiting_for_what_cannot_come() -> None:
    """A wait without a limit ends with the reason, which the cluster's log has too."""
    outcome = run(waiting_in_vain)
    outcome.clean()
    assert "the hook says no" in outcome.value["error"]
    assert "the hook says no" in outcome.value["log"]
    assert outcome.value["seconds"] <= bound(60)
