"""R21, R22, R40: stubborn tasks, killed parents, busy clients."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.cases import kit
from tests.cases.harness import bound, run, started, wait_gone
from tests.cases.tasks import work


def stubborn_tasks() -> dict[str, Any]:
    cluster = kit.start(n_workers=2)
    client = cluster.get_client()
    futures = client.map(work, range(2), log=kit.LOG, seconds=60.0, pure=False)
    kit.until(lambda: kit.begun() == 2, bound(10))
    seconds = []
    for _ in range(2):
        begin = time.monotonic()
        cluster.close()
        seconds.append(time.monotonic() - begin)
    del futures
    client.close()
    return {"seconds": seconds, "processes": list(kit.worker_processes().values())}


def test_r21_close_with_stubborn_tasks() -> None:
    """Tasks that sleep a minute hold up the first close a little, the second not."""
    outcome = run(stubborn_tasks)
    outcome.clean()
    first, second = outcome.value["seconds"]
    assert first <= bound(15)
    assert second <= bound(0.1)
    assert outcome.value["processes"] == []


MODULE, _, CLASS = os.environ.get(
    "FLEET_CASES_CLASS", "dask_fleet:LocalCluster"
).partition(":")

PARENT = f"""\
import time
from {MODULE} import {CLASS} as LocalCluster


def main():
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    client = cluster.get_client()
    busy = {{busy}}
    futures = client.map(time.sleep, [60.0, 60.1]) if busy else []
    while busy and not all(client.processing().values()):
        time.sleep(0.05)
    print("ready", flush=True)
    time.sleep(120)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name
)
def test_r22_parent_dies(how: signal.Signals, busy: bool) -> None:
    """However the parent ends, ten seconds later nothing that it started is there."""
    with started(PARENT.format(busy=busy)) as (process, token):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(how)
        assert wait_gone(token, bound(10)) == ()


def busy_client() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        watch = kit.Watch(cluster)
        cluster.adapt(minimum=0, maximum=2)
        futures = client.map(work, range(20), log=kit.LOG, seconds=0.5, pure=False)
        kit.until(lambda: kit.begun() > 0, bound(10))
        end = time.monotonic() + 4
        number = 0
        while time.monotonic() < end:  # never lets go of the interpreter by itself
            number = (number * 31 + 7) % 1_000_003
        results = client.gather(futures)
        return {
            "results": results,
            "executions": kit.begun(),
            "incarnations": len(watch.added),
        }


def test_r40_busy_client_thread() -> None:
    """A client that computes without pause costs no worker and no second run."""
    outcome = run(busy_client)
    outcome.clean()
    assert outcome.value["executions"] == 20
    assert outcome.value["incarnations"] <= 2
    assert outcome.value["results"] == list(range(20))
