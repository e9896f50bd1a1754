"""R10, R11: one thing is in control, and it says which."""

from __future__ import annotations

from typing import Any

from tests.cases import kit
from tests.cases.harness import bound, run


def scale_after_adapt() -> dict[str, Any]:
    with kit.start(n_workers=0) as cluster, cluster.get_client():
        handle = cluster.adapt(minimum=0, maximum=4)
        kit.steady(lambda: kit.size(cluster) == 0, seconds=1, limit=bound(5))
        cluster.scale(3)
        kit.until(lambda: kit.size(cluster) == 3, bound(20))
        with kit.Sampler(cluster) as sampler:
            kit.steady(lambda: True, seconds=6, limit=6)
        return {
            "sizes": sorted(set(sampler.sizes)),
            "handle": handle.state,
            "mode": cluster.mode,
            "state": cluster.state.mode,
            "html": cluster._repr_html_() + cluster._scaling_status(),
        }


def test_r10_scale_after_adapt() -> None:
    """A manual target ends adaptive scaling for good, and every view says so."""
    outcome = run(scale_after_adapt)
    outcome.clean()
    value = outcome.value
    assert value["sizes"] == [3]
    assert value["handle"] == "stopped"
    assert value["mode"] == value["state"] == "manual"
    assert "manual" in value["html"].lower()
    assert "adaptive" not in value["html"].lower()


def adapt_twice() -> dict[str, Any]:
    class Counted(kit.cluster_class()):  # type: ignore[misc]
        asked = 0

        async def adaptive_target(self) -> int:
            self.asked += 1
            target: int = await super().adaptive_target()
            return target

    with (
        Counted(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster,
        cluster.get_client(),
    ):
        first = cluster.adapt(minimum=3, maximum=4, interval="0.2s")
        kit.until(lambda: kit.size(cluster) == 3, bound(20))
        second = cluster.adapt(maximum=1)
        kit.until(lambda: kit.size(cluster) <= 1, bound(20))
        asked = cluster.asked
        with kit.Sampler(cluster) as sampler:
            kit.steady(lambda: True, seconds=5, limit=5)
        return {
            "first": first.state,
            "second": second.state,
            "options": [second.minimum, second.maximum, second.interval],
            "asked": cluster.asked - asked,
            "sizes": sorted(set(sampler.sizes)),
        }


def test_r11_adapt_twice() -> None:
    """The second call replaces the first whole: bounds, interval and loop."""
    outcome = run(adapt_twice)
    outcome.clean()
    value = outcome.value
    assert (value["first"], value["second"]) == ("stopped", "running")
    assert value["options"] == [0, 1, 1.0]
    assert set(value["sizes"]) <= {0, 1}
    # Five seconds at one a second; a first loop left over would ask 25 times more.
    assert 1 <= value["asked"] <= 12
