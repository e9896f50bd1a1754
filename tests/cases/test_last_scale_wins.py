"""R06, R34: the last `scale` wins, however quickly and from wherever they come."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.cases import kit
from tests.cases.harness import bound, run


def changes_of_mind() -> dict[str, Any]:
    with kit.start(n_workers=1) as cluster, cluster.get_client():
        for target in (4, 0, 3, 1, 4, 1):
            cluster.scale(target)
            time.sleep(0.05)
        settled = kit.steady(
            lambda: kit.both(cluster) == (1, 1), seconds=3, limit=bound(15)
        )
        return {"settled": settled, "sizes": kit.both(cluster)}


def test_r06_quick_changes_of_mind() -> None:
    """After six contradicting calls one worker is left, one process, and no noise."""
    outcome = run(changes_of_mind)
    outcome.quiet()
    assert outcome.value["sizes"] == [1, 1]
    assert outcome.value["settled"] <= bound(15)


def many_threads() -> dict[str, Any]:
    with kit.start(n_workers=1) as cluster, cluster.get_client():
        errors: list[str] = []

        def scale(target: int) -> None:
            try:
                cluster.scale(target)
            except Exception as error:  # noqa: BLE001  # handed to the test
                errors.append(repr(error))

        threads = [
            threading.Thread(target=scale, args=(target,))
            for target in (1, 2, 3, 2, 4, 3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cluster.scale(2)
        kit.steady(lambda: kit.both(cluster) == (2, 2), seconds=3, limit=bound(15))
        return {"errors": errors, "sizes": kit.both(cluster)}


def test_r34_many_threads() -> None:
    """Six threads scale at once without an error; the call after them decides."""
    outcome = run(many_threads)
    outcome.clean()
    assert outcome.value == {"errors": [], "sizes": [2, 2]}
