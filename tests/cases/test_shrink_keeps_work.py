"""R01, R03, R04, R05, R38: a shrink runs nothing twice and blames no task."""

from __future__ import annotations

from typing import Any

import dask
from distributed import worker_client

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import note, work


def busy_worker() -> dict[str, Any]:
    with kit.start(n_workers=4) as cluster, cluster.get_client() as client:
        newest = kit.addresses(cluster)[-1]
        future = client.submit(
            work, 1, kit.LOG, 6.0, workers=[newest], allow_other_workers=True
        )
        kit.until(lambda: kit.begun() == 1, bound(10))
        cluster.scale(1)
        assert future.result(timeout=bound(20)) == 1
        kit.until(lambda: kit.size(cluster) == 1, bound(20))
        return {
            "survived": kit.addresses(cluster) == [newest],
            "executions": kit.executions(),
        }


def test_r01_busy_worker_survives_a_shrink() -> None:
    """The one that works is the one that stays, and its task runs once."""
    outcome = run(busy_worker)
    outcome.clean()
    assert outcome.value == {"survived": True, "executions": {"1": 1}}


def finished_work() -> dict[str, Any]:
    with kit.start(n_workers=4) as cluster, cluster.get_client() as client:
        futures = client.map(work, range(16), log=kit.LOG, pure=False)
        assert client.gather(futures) == list(range(16))
        cluster.scale(1)
        kit.until(lambda: kit.size(cluster) == 1, bound(20))
        assert client.gather(futures) == list(range(16))
        return {"executions": kit.begun()}


def test_r03_no_recompute_of_finished_work() -> None:
    """Sixteen held results of four workers fit on one: sixteen executions remain."""
    outcome = run(finished_work)
    outcome.clean()
    assert outcome.value == {"executions": 16}


def no_blame() -> dict[str, Any]:
    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with kit.start(n_workers=4) as cluster, cluster.get_client() as client:
        futures = client.map(work, range(12), log=kit.LOG, seconds=1.0, pure=False)
        kit.until(lambda: kit.begun() >= 4, bound(10))
        cluster.scale(1)
        results = client.gather(futures, errors="skip")
        return {"results": sorted(results), "most": max(kit.executions().values())}


def test_r04_no_blame_for_a_requested_shrink() -> None:
    """With no failure allowed, a shrink in the middle costs no result and no rerun."""
    outcome = run(no_blame)
    outcome.clean()
    assert outcome.value == {"results": list(range(12)), "most": 1}


def drive(log: str, parts_log: str) -> int:
    note(log, "driver")
    with worker_client() as client:
        parts = client.map(work, range(16), log=parts_log, seconds=0.5, pure=False)
        return sum(client.gather(parts))


def driver_task() -> dict[str, Any]:
    parts = f"{kit.LOG}.parts"
    with kit.start(n_workers=4) as cluster, cluster.get_client() as client:
        newest = kit.addresses(cluster)[-1]
        future = client.submit(
            drive, kit.LOG, parts, workers=[newest], allow_other_workers=True
        )
        kit.until(lambda: kit.begun(parts) >= 4, bound(10), "its tasks are under way")
        cluster.scale(1)
        total = future.result(timeout=bound(30))
        return {"sum": total, "executions": kit.executions(), "parts": kit.begun(parts)}


def test_r05_driver_task() -> None:
    """A task that drives others from its worker goes through a shrink in one run."""
    outcome = run(driver_task)
    outcome.clean()
    assert outcome.value == {"sum": 120, "executions": {"driver": 1}, "parts": 16}


def maximum_below_busy() -> dict[str, Any]:
    with kit.start(n_workers=4) as cluster, cluster.get_client() as client:
        watch = kit.Watch(cluster)
        futures = [
            client.submit(
                work, n, kit.LOG, 8.0, workers=[address], allow_other_workers=True
            )
            for n, address in enumerate(kit.addresses(cluster)[:2])
        ]
        kit.until(lambda: kit.begun() == 2, bound(10))
        cluster.adapt(minimum=1, maximum=1)
        assert client.gather(futures) == [0, 1]
        kit.until(lambda: kit.size(cluster) == 1, bound(20))
        return {
            "executions": kit.executions(),
            "started later": len(watch.added) - 4,
            "sizes": watch.sizes,
        }


def test_r38_maximum_below_what_is_busy() -> None:
    """Both long tasks end where they began; the size only ever falls."""
    outcome = run(maximum_below_busy)
    outcome.clean()
    value = outcome.value
    assert value["executions"] == {"0": 1, "1": 1}
    assert value["started later"] == 0
    assert value["sizes"] == sorted(value["sizes"], reverse=True)
