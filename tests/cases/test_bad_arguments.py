"""R12, R13: what cannot be meant is refused in the caller and changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.cases import kit
from tests.cases.harness import run


def crossed_bounds() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client():
        watch = kit.Watch(cluster)
        error = kit.refusal(lambda: cluster.adapt(minimum=3, maximum=1))
        # Longer than it takes a worker to come, were one on its way.
        kit.steady(lambda: kit.both(cluster) == (0, 0), seconds=3, limit=5)
        return {
            "kind": type(error).__name__,
            "message": str(error),
            "started": watch.added,
        }


def test_r12_crossed_bounds() -> None:
    """A minimum above the maximum is a ValueError, and no worker is started for it."""
    outcome = run(crossed_bounds)
    outcome.clean()
    assert outcome.value["kind"] == "ValueError"
    assert "minimum" in outcome.value["message"]
    assert "3" in outcome.value["message"]
    assert "1" in outcome.value["message"]
    assert outcome.value["started"] == []


BAD: tuple[Any, ...] = (2.5, -1, "3", True, None, float("nan"))


def bad_targets() -> dict[str, Any]:
    with kit.start(n_workers=1) as cluster, cluster.get_client():
        kit.until(lambda: kit.both(cluster) == (1, 1), 20)
        watch, pids = kit.Watch(cluster), set(kit.worker_processes())
        found = []
        for value in BAD:
            error = kit.refusal(partial(cluster.scale, value))
            found.append([type(error).__name__, str(error), cluster.target])
        kit.steady(lambda: kit.both(cluster) == (1, 1), seconds=2, limit=5)
        return {
            "found": found,
            "changes": [len(watch.added) - 1, len(watch.removed)],
            "same process": set(kit.worker_processes()) == pids,
        }


def test_r13_bad_targets() -> None:
    """Each bad target is named in a TypeError or ValueError; the target stays at 1."""
    outcome = run(bad_targets)
    outcome.clean()
    for value, (kind, message, target) in zip(BAD, outcome.value["found"], strict=True):
        assert kind in ("TypeError", "ValueError"), (value, kind, message)
        assert repr(value) in message
        assert target == 1
    assert outcome.value["changes"] == [0, 0]
    assert outcome.value["same process"]
