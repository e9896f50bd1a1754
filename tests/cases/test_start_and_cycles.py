"""R37, R41: starting waits for what it was asked to, and cycles leave nothing."""

from __future__ import annotations

import gc
import threading
from typing import Any

import psutil
import pytest

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import nap

#: Seconds that the start of a worker takes here: more than a test notices by chance.
SLOW = "import time\n\ndef dask_setup(worker):\n    time.sleep(4)\n"


def construction(workers: int) -> dict[str, Any]:
    with kit.start(n_workers=workers, wait=False, preload=kit.hook(SLOW)) as cluster:
        there = kit.size(cluster)
        status = cluster.status.name
        with cluster.get_client() as client:
            assert client.submit(nap, 5, 0.0).result(timeout=bound(30)) == 5
            cluster.wait_for_workers(workers, timeout=bound(30))
        return {"there": there, "status": status, "size": kit.size(cluster)}


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_r37_construction_without_waiting(workers: int) -> None:
    """With `wait=False` the cluster is there first; the workers come by themselves."""
    outcome = run(construction, workers=workers)
    outcome.clean()
    assert outcome.value == {"there": 0, "status": "running", "size": workers}


def eight_from_zero() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        cluster.scale(8)
        first = kit.until(lambda: kit.size(cluster) > 0, bound(20))
        assert client.submit(nap, 5, 0.0).result(timeout=bound(20)) == 5
        cluster.wait_for_workers(8, timeout=bound(20))
        return {"first": first, "sizes": kit.both(cluster)}


def test_r37_eight_from_zero() -> None:
    """Eight asked for from nothing are eight processes soon, each there once."""
    outcome = run(eight_from_zero)
    outcome.clean()
    assert outcome.value["sizes"] == [8, 8]


def cycles(processes: bool, times: int) -> dict[str, Any]:
    me = psutil.Process()
    descriptors, threads, children = [], [], []
    for _ in range(times):
        with (
            kit.start(n_workers=1, processes=processes) as cluster,
            cluster.get_client() as client,
        ):
            assert client.submit(nap, 3, 0.0).result() == 3
        gc.collect()
        descriptors.append(me.num_fds())
        threads.append(threading.active_count())
        children.append(len(kit.worker_processes()))
    return {"descriptors": descriptors, "threads": threads, "children": children}


@pytest.mark.parametrize(
    ("processes", "times"), [(False, 25), (True, 8)], ids=["threads", "processes"]
)
def test_r41_many_cycles(processes: bool, times: int) -> None:
    """After the fifth create and close nothing grows, and nothing is said."""
    outcome = run(cycles, processes=processes, times=times)
    outcome.quiet()
    assert set(outcome.value["children"]) == {0}
    for counts in (outcome.value["descriptors"], outcome.value["threads"]):
        assert max(counts[5:]) <= counts[4], counts
