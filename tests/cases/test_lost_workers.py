"""R15, R16, R28: workers that go unasked are replaced, but not for a deadly task."""

from __future__ import annotations

import os
import signal
from typing import Any

import dask
from distributed import KilledWorker

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import nap


def supervisor_gone() -> dict[str, Any]:
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"})
    with kit.start(n_workers=2) as cluster, cluster.get_client() as client:
        watch = kit.Watch(cluster)
        client.retire_workers([kit.addresses(cluster)[0]])
        kit.until(lambda: len(watch.removed) == 1, bound(10), "one has gone")
        kit.until(lambda: kit.both(cluster) == (2, 2), bound(15))
        return {"added": len(watch.added), "plan": len(cluster.plan)}


def test_r15_worker_and_supervisor_leave_for_good() -> None:
    """A worker that leaves with its supervisor, unasked, is replaced."""
    outcome = run(supervisor_gone)
    outcome.clean()
    assert outcome.value == {"added": 3, "plan": 2}


def worker_killed() -> dict[str, Any]:
    with kit.start(n_workers=2) as cluster, cluster.get_client() as client:
        watch = kit.Watch(cluster)
        victim = next(iter(client.run(os.getpid).values()))
        os.kill(victim, signal.SIGKILL)
        kit.until(lambda: len(watch.removed) == 1, bound(10), "one has gone")
        kit.until(lambda: kit.both(cluster) == (2, 2), bound(15))
        kit.steady(lambda: kit.both(cluster) == (2, 2), seconds=2, limit=bound(10))
        return {"added": len(watch.added), "plan": len(cluster.plan)}


def test_r15_worker_killed() -> None:
    """A worker that is killed comes back once, whoever brings it."""
    outcome = run(worker_killed)
    outcome.clean()
    assert outcome.value == {"added": 3, "plan": 2}


def lifetimes(adaptive: bool) -> dict[str, Any]:
    with kit.start(n_workers=2, lifetime="4s") as cluster, cluster.get_client():
        watch = kit.Watch(cluster)
        if adaptive:
            cluster.adapt(minimum=2, maximum=2)
        with kit.Sampler(cluster) as sampler:
            kit.steady(lambda: True, seconds=20, limit=20)
        kit.until(lambda: kit.size(cluster) >= 2, bound(10))
        return {
            "sizes": sampler.sizes,
            "added": len(watch.added),
            "lowest": min(watch.sizes),
        }


def test_r16_lifetime_with_a_fixed_target() -> None:
    """Workers whose lifetime is over are replaced each time."""
    outcome = run(lifetimes, adaptive=False)
    outcome.clean()
    assert outcome.value["added"] >= 8
    assert _longest_dip(outcome.value["sizes"]) <= bound(2)


def test_r16_lifetime_under_adaptive() -> None:
    """With a minimum of two it is never none, and less than two for a moment only."""
    outcome = run(lifetimes, adaptive=True)
    outcome.clean()
    assert outcome.value["added"] >= 8
    assert outcome.value["lowest"] > 0
    assert _longest_dip(outcome.value["sizes"]) <= bound(2)


def _longest_dip(sizes: list[int]) -> float:
    """Seconds for which fewer than two were there in a row."""
    longest = run_length = 0
    for size in sizes:
        run_length = run_length + 1 if size < 2 else 0
        longest = max(longest, run_length)
    return longest * 0.1


def die() -> None:
    os._exit(1)


def poison() -> dict[str, Any]:
    allowed = dask.config.get("distributed.scheduler.allowed-failures")
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        watch = kit.Watch(cluster)
        cluster.adapt(minimum=0, maximum=2)
        # The normal one first: the scheduler blames all that a dead worker had.
        normal = client.submit(nap, 1, 0.5, priority=1)
        deadly = client.submit(die)
        error = deadly.exception(timeout=bound(30))
        value = normal.result(timeout=bound(30))
        deadly.release()
        normal.release()
        kit.until(lambda: kit.both(cluster) == (0, 0), bound(20))
        return {
            "error": type(error).__name__,
            "value": value,
            "added": len(watch.added),
            "allowed": allowed,
        }


def test_r28_poison_task() -> None:
    """A task that kills its worker fails in the end; the other one is done."""
    outcome = run(poison)
    assert outcome.value["error"] == KilledWorker.__name__
    assert outcome.value["value"] == 1
    assert outcome.value["added"] <= outcome.value["allowed"] + 2
    assert outcome.left == ()
