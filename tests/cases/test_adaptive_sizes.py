"""R09, R25: adaptive scaling is big enough for unknown work, and calm in pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import nap, note


def begin_and_end(number: int, log: str, seconds: float) -> int:
    note(log, number, "begin")
    nap(number, seconds)
    note(log, number, "end")
    return number


def unknown_long_tasks() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        cluster.adapt(minimum=0, maximum=4)
        futures = client.map(begin_and_end, range(4), log=kit.LOG, seconds=6.0)
        seconds = kit.until(lambda: all(f.done() for f in futures), bound(30))
        lines = Path(kit.LOG).read_text("utf-8").splitlines()
        return {"words": [line.split()[2] for line in lines], "seconds": seconds}


def test_r09_unknown_long_tasks_side_by_side() -> None:
    """Four long tasks of a kind never seen before all run before the first one ends."""
    outcome = run(unknown_long_tasks)
    outcome.clean()
    assert outcome.value["words"] == ["begin"] * 4 + ["end"] * 4
    assert outcome.value["seconds"] <= bound(10)


def bursts() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        watch = kit.Watch(cluster)
        handle = cluster.adapt(minimum=0, maximum=2, interval="1s", wait_count=10)
        for _ in range(4):
            futures = client.map(nap, range(8), seconds=0.5, pure=False)
            assert client.gather(futures) == list(range(8))
            del futures
            kit.steady(lambda: True, seconds=5, limit=5)
        return {"incarnations": len(watch.added), "calm": handle.calm}


def test_r25_bursts() -> None:
    """Pauses of 5 s stop and start nothing when workers are kept warm for 10 s."""
    outcome = run(bursts)
    outcome.clean()
    assert outcome.value["calm"] == 10
    assert outcome.value["incarnations"] <= 2


def calm_by_default() -> dict[str, Any]:
    with kit.start(n_workers=0, processes=False) as cluster:
        return {"calm": cluster.adapt(minimum=0, maximum=2, interval="1s").calm}


def test_r25_calm_window_by_default() -> None:
    """What is kept warm without being asked for: three looks, one second apart."""
    outcome = run(calm_by_default)
    outcome.clean()
    assert outcome.value == {"calm": 3}
