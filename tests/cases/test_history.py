"""R30, R32: one can wait for a shrink, and read afterwards what it was."""

from __future__ import annotations

from typing import Any

from tests.cases import kit
from tests.cases.harness import bound, run


def wait_for_shrink(how: str) -> dict[str, Any]:
    with kit.start(n_workers=3) as cluster, cluster.get_client():
        cluster.scale(1)
        if how == "exactly":
            cluster.wait_for_workers(1, exactly=True, timeout=bound(20))
        else:
            cluster.wait_for_workers(timeout=bound(20))
        return {
            "size": kit.size(cluster),
            "plan": len(cluster.plan),
            "settled": cluster.plan == cluster.requested == cluster.observed,
        }


def test_r30_waiting_for_exactly_one() -> None:
    """Waiting for exactly one returns when one is left, not while three are there."""
    outcome = run(wait_for_shrink, how="exactly")
    outcome.clean()
    assert outcome.value["size"] == 1


def test_r30_waiting_until_settled() -> None:
    """Without a number it waits for the target: all books say one then."""
    outcome = run(wait_for_shrink, how="settled")
    outcome.clean()
    assert outcome.value == {"size": 1, "plan": 1, "settled": True}


def logs_and_reasons() -> dict[str, Any]:
    with kit.start(n_workers=2) as cluster, cluster.get_client() as client:
        before = set(cluster.plan)
        client.run(_mark)
        cluster.scale(1)
        kit.until(lambda: kit.size(cluster) == 1, bound(20))
        cluster.wait_for_workers(timeout=bound(20))
        gone = before - cluster.plan
        logs = "\n".join(str(log) for log in cluster.get_logs().values())
        return {
            "marks": logs.count("here was worker"),
            "gone": sorted(gone),
            "history": [
                [str(event.cause), list(event.workers)]
                for event in cluster.events
                if (event.before, event.after) == (2, 1)
            ],
        }


def _mark() -> None:
    import logging

    logging.getLogger("distributed.worker").warning("here was worker")


def test_r32_logs_of_the_removed_and_reasons() -> None:
    """The removed worker's log stays; the history says 2 -> 1, by whom, and which."""
    outcome = run(logs_and_reasons)
    outcome.clean()
    assert outcome.value["marks"] == 2
    gone = outcome.value["gone"]
    assert len(gone) == 1
    # The wish of the user, and what was made of it.
    assert outcome.value["history"] == [["scaled", []], ["draining", gone]]
