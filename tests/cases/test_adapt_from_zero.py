"""R08, R14: adaptive scaling starts from nothing, ends in nothing, survives errors."""

from __future__ import annotations

from typing import Any

from distributed.comm.core import CommClosedError

from tests.cases import kit
from tests.cases.harness import bound, run
from tests.cases.tasks import nap


def from_zero() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client() as client:
        cluster.adapt(minimum=0, maximum=2, interval="0.2s")
        future = client.submit(nap, 1, 3.0)
        arrival = kit.until(lambda: kit.size(cluster) > 0, bound(15))
        assert future.result() == 1
        future.release()
        empty = kit.until(lambda: kit.both(cluster) == (0, 0), bound(20))
        return {"arrival": arrival, "empty": empty}


def test_r08_from_zero_and_back() -> None:
    """A task of unknown length soon brings a worker; its release takes it away."""
    outcome = run(from_zero)
    outcome.clean()
    assert outcome.value["arrival"] <= bound(3)
    assert outcome.value["empty"] <= bound(10)


def survives_errors() -> dict[str, Any]:
    class Unlucky(kit.cluster_class()):  # type: ignore[misc]
        asked = 0

        async def adaptive_target(self) -> int:
            self.asked += 1
            if self.asked <= 3:
                raise CommClosedError(f"query {self.asked} was lost")
            target: int = await super().adaptive_target()
            return target

    with (
        Unlucky(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster,
        cluster.get_client() as client,
    ):
        handle = cluster.adapt(minimum=0, maximum=2, interval="0.2s")
        kit.until(lambda: cluster.asked >= 3, bound(15), "three queries")
        assert client.submit(nap, 7, 0.1).result(timeout=bound(20)) == 7
        asked = cluster.asked
        kit.until(lambda: cluster.asked > asked, bound(5), "the loop goes on")
        told = [str(event) for event in cluster.events]
        return {
            "state": handle.state,
            "records": [
                sum(f"query {n} was lost" in line for line in told) for n in (1, 2, 3)
            ],
        }


def test_r14_adaptive_survives_errors() -> None:
    """Three failed queries leave one record each, and the fourth does its work."""
    outcome = run(survives_errors)
    outcome.clean()
    assert outcome.value == {"state": "running", "records": [1, 1, 1]}
