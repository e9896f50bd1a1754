"""R02, R07, R24, R26, R27, R39: a shrink loses nothing that somebody holds."""

from __future__ import annotations

from typing import Any

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import nap, work, work_on


def scattered_data() -> dict[str, Any]:
    with kit.start(n_workers=4) as cluster, cluster.get_client() as client:
        futures = [
            client.scatter(f"value {n}", workers=[address], hash=False)
            for n, address in enumerate(kit.addresses(cluster))
        ]
        cluster.scale(1)
        kit.until(lambda: kit.size(cluster) == 1, bound(20))
        return {"values": client.gather(futures)}


def test_r02_scattered_data_survives() -> None:
    """What only one worker had, nobody can compute again; it moves before it goes."""
    outcome = run(scattered_data)
    outcome.clean()
    assert outcome.value == {"values": [f"value {n}" for n in range(4)]}


def zero_with_held_results() -> dict[str, Any]:
    with kit.start(n_workers=2) as cluster, cluster.get_client() as client:
        scattered = client.scatter("value", hash=False)
        result = client.submit(work, 5, kit.LOG, pure=False)
        assert result.result() == 5
        refused = kit.refusal(lambda: cluster.scale(0))
        if refused is None:
            # Not a wait for zero: that the holder is still there is the right outcome.
            kit.until(lambda: "held" in cluster.explain().lower(), bound(15))
        told = str(refused or cluster.explain())
        cluster.scale(1)
        values = client.gather([scattered, result])
        return {"values": values, "executions": kit.begun(), "told": told}


def test_r07_scale_to_zero_with_held_results() -> None:
    """The holder stays until it is released and says so, or the call is refused."""
    outcome = run(zero_with_held_results)
    outcome.clean()
    assert outcome.value["values"] == ["value", 5]
    assert outcome.value["executions"] == 1
    assert outcome.value["told"]


#: Slow from the moment that the file `slow` is there.
SLOW_LATER = """
import os, time

def dask_setup(worker):
    if os.path.exists({flag!r}):
        time.sleep(12)
"""


def pending_first() -> dict[str, Any]:
    flag = f"{kit.LOG}.slow"
    preload = kit.hook(SLOW_LATER.format(flag=flag))
    with (
        kit.start(n_workers=1, preload=preload) as cluster,
        cluster.get_client() as client,
    ):
        watch, first = kit.Watch(cluster), kit.addresses(cluster)
        future = client.scatter("value", hash=False)
        open(flag, "w").close()
        cluster.scale(4)
        kit.until(lambda: len(kit.worker_processes()) == 4, bound(10))
        kit.steady(lambda: True, seconds=1, limit=2)
        cluster.scale(1)
        stopped = kit.until(lambda: len(kit.worker_processes()) == 1, bound(15))
        return {
            "value": future.result(),
            "same": kit.addresses(cluster) == first,
            "arrived": len(watch.added),
            "stopped": stopped,
        }


def test_r24_pending_first_and_quickly() -> None:
    """Starts under way are withdrawn at once; the worker that is there stays."""
    outcome = run(pending_first)
    outcome.clean()
    value = outcome.value
    assert (value["value"], value["same"], value["arrived"]) == ("value", True, 1)
    assert value["stopped"] <= bound(3)


def held_results() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        cluster.adapt(minimum=0, maximum=4)
        futures = client.map(work, range(40), log=kit.LOG, seconds=0.3, pure=False)
        assert client.gather(futures) == list(range(40))
        kit.steady(lambda: True, seconds=8, limit=8)
        assert client.gather(futures) == list(range(40))
        client.cancel(futures)
        del futures
        gone = kit.until(lambda: kit.both(cluster) == (0, 0), bound(20))
        return {"executions": kit.begun(), "gone": gone}


def test_r26_held_results_keep_workers_release_frees_them() -> None:
    """Results outlive the idle time at no second run, and their release frees all."""
    outcome = run(held_results)
    outcome.clean()
    assert outcome.value["executions"] == 40
    assert outcome.value["gone"] <= bound(10)


def fan_out_tail_fan_out() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        cluster.adapt(minimum=0, maximum=4)
        first = client.map(work, range(40), log=kit.LOG, seconds=0.3, pure=False)
        tail = client.submit(work_on, first, f"{kit.LOG}.tail", 8.0, pure=False)
        kit.until(lambda: kit.begun(f"{kit.LOG}.tail") == 1, bound(30))
        # The calm window is 3 s; after 6 s of the tail it is settled.
        kit.steady(lambda: True, seconds=6, limit=6)
        useless = [
            state.address
            for state in list(cluster.scheduler.workers.values())
            if not state.processing and not state.has_what
        ]
        assert tail.result(timeout=bound(30)) == sum(range(40))
        second = client.map(work, range(40, 60), log=kit.LOG, seconds=0.3, pure=False)
        assert client.gather(second) == list(range(40, 60))
        assert client.gather(first) == list(range(40))
        return {"executions": kit.begun(), "useless": useless}


def test_r27_fan_out_tail_fan_out() -> None:
    """In the tail only its worker and the holders remain; nothing is run twice."""
    outcome = run(fan_out_tail_fan_out)
    outcome.clean()
    assert outcome.value == {"executions": 60, "useless": []}


SIZE = 180_000_000


def big(number: int, log: str) -> bytes:
    work(number, log)
    return bytes([number + 1]) * SIZE


def length(data: bytes) -> int:
    return len(data)


def data_that_does_not_fit() -> dict[str, Any]:
    with (
        kit.start(n_workers=3, memory_limit="350MB") as cluster,
        cluster.get_client() as client,
    ):
        futures = [
            client.submit(big, n, kit.LOG, workers=[address], allow_other_workers=True)
            for n, address in enumerate(kit.addresses(cluster))
        ]
        kit.until(lambda: all(future.done() for future in futures), bound(30))
        cluster.scale(1)
        kit.steady(lambda: True, seconds=12, limit=12)
        left, told = kit.size(cluster), cluster.explain()
        lengths = [
            client.submit(length, future, pure=False).result(timeout=bound(20))
            for future in futures
        ]
        executions = kit.begun()
        assert client.submit(nap, 1, 0.0).result(timeout=bound(20)) == 1
        return {"left": left, "told": told, "lengths": lengths, "runs": executions}


def test_r39_data_that_does_not_fit() -> None:
    """The shrink stops where the data still fits and says so; all three stay."""
    outcome = run(data_that_does_not_fit)
    outcome.clean()
    value = outcome.value
    assert value["lengths"] == [SIZE] * 3
    assert value["runs"] == 3
    assert value["left"] == 1 or "held" in value["told"].lower()
