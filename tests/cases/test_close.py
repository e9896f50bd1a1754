"""R20, R35: close is bounded whenever it comes, and closed means closed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import nap

SLOW = "import time\n\ndef dask_setup(worker):\n    time.sleep(6)\n"


def close_slow_starts() -> dict[str, Any]:
    cluster = kit.start(n_workers=0, preload=kit.hook(SLOW))
    with cluster.get_client():
        cluster.scale(3)
        time.sleep(0.5)
    begin = time.monotonic()
    cluster.close()
    return {
        "seconds": time.monotonic() - begin,
        "status": cluster.status.name,
        "processes": list(kit.worker_processes().values()),
    }


def close_adaptive_growth(after: float) -> dict[str, Any]:
    cluster = kit.start(n_workers=0)
    client = cluster.get_client()
    cluster.adapt(minimum=0, maximum=4, interval="0.05s")
    futures = client.map(nap, range(50), seconds=0.5)
    time.sleep(after)
    begin = time.monotonic()
    cluster.close()
    seconds = time.monotonic() - begin
    del futures
    client.close()
    return {
        "seconds": seconds,
        "status": cluster.status.name,
        "processes": list(kit.worker_processes().values()),
    }


def test_r20_close_while_slow_workers_start() -> None:
    """Three workers half a second into a start of six seconds do not hold up close."""
    _judge_close(run(close_slow_starts))


@pytest.mark.parametrize("after", [0.4, 0.9, 1.4])
def test_r20_close_while_adaptive_grows(after: float) -> None:
    """Close wins against adaptive growth under way, with fifty tasks waiting."""
    _judge_close(run(close_adaptive_growth, after=after))


def _judge_close(outcome: Any) -> None:
    outcome.clean()
    assert outcome.value["seconds"] <= bound(15)
    assert outcome.value["status"] == "closed"
    assert outcome.value["processes"] == []


def closed_means_closed() -> dict[str, Any]:
    cluster = kit.start(n_workers=2)
    with cluster.get_client() as client:
        client.run(_mark, "a mark of the worker that goes")
        cluster.scale(1)
        kit.until(lambda: kit.size(cluster) == 1, bound(20))
    cluster.close()
    errors = [
        kit.refusal(lambda: cluster.scale(2)),
        kit.refusal(lambda: cluster.adapt(maximum=2)),
    ]
    logs = cluster.get_logs()
    return {
        "errors": [str(error) for error in errors],
        "repr": repr(cluster),
        "html": cluster._repr_html_(),
        "marks": sum("a mark of the worker" in str(log) for log in logs.values()),
    }


def _mark(text: str) -> None:
    import logging

    logging.getLogger("distributed.worker").warning(text)


def test_r35_closed_means_closed() -> None:
    """After close scale and adapt say that it is; views and stored logs work."""
    outcome = run(closed_means_closed)
    outcome.clean()
    for message in outcome.value["errors"]:
        assert "closed" in message
    assert "LocalCluster" in outcome.value["repr"]
    assert "<" in outcome.value["html"]
    assert outcome.value["marks"] >= 1
