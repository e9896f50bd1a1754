"""The rows S1 to S9 of "What was asked for": one scale, and the hooks around it."""

from __future__ import annotations

import asyncio
import gc
import importlib
import pkgutil

import pytest
from distributed import Client
from distributed.deploy.adaptive_core import AdaptiveCore

import dask_fleet.backends
from dask_fleet import Cluster, LocalCluster
from dask_fleet.testing.fake_manager import FakeCluster
from tests.requests.support import Bare, bare, local, run, until

pytestmark = pytest.mark.integration


def all_kinds() -> set[type[Cluster]]:
    """Every kind of cluster that this package has, and those of these tests."""
    home = dask_fleet.backends
    for module in pkgutil.iter_modules(home.__path__, f"{home.__name__}."):
        importlib.import_module(module.name)
    found: set[type[Cluster]] = set()
    new: list[type[Cluster]] = [Cluster]
    while new:
        kinds = new.pop().__subclasses__()
        found.update(kinds)
        new.extend(kinds)
    return found


def test_s01_one_scale_serves_all_clusters() -> None:
    kinds = all_kinds()
    assert {LocalCluster, Bare, FakeCluster} <= kinds
    for kind in kinds:
        assert kind.scale is Cluster.scale, kind
        assert kind.adapt is Cluster.adapt, kind
        assert kind.recommendations is Cluster.recommendations, kind


def test_s02_recommendations_decide_from_plan_requested_observed() -> None:
    async def main() -> None:
        async with bare(n_workers=2) as cluster:
            assert cluster.plan == cluster.requested == cluster.observed
            books = (cluster.plan, cluster.requested, cluster.observed, cluster.target)

            up = await cluster.recommendations(4)
            assert (up.status, up.start, up.workers) == ("up", 2, ())
            same = await cluster.recommendations(2)
            assert (same.status, same.start, same.workers) == ("same", 0, ())
            down = await cluster.recommendations(1)
            assert (down.status, down.start, len(down.workers)) == ("down", 0, 1)
            # Asking has changed nothing, and scaling does what was recommended.
            assert books == (
                cluster.plan,
                cluster.requested,
                cluster.observed,
                cluster.target,
            )
            await cluster.scale(1)
            await cluster.wait_for_workers()
            assert cluster.observed == books[0] - set(down.workers)

    run(main())


def test_s02_what_was_requested_and_has_not_come_goes_first() -> None:
    async def main() -> None:
        async with FakeCluster(asynchronous=True, n_workers=1) as cluster:
            cluster.delay = 1000
            await cluster.scale(3)
            assert len(cluster.requested) == 3
            assert len(cluster.observed) == 1
            down = await cluster.recommendations(1)
            assert down.status == "down"
            assert set(down.workers) == cluster.requested - cluster.observed

    run(main())


def test_s03_the_same_logic_with_adaptivity_on_and_off() -> None:
    async def calls(adaptive: bool) -> list[tuple[str, int]]:
        async with FakeCluster(asynchronous=True, n_workers=1) as cluster:
            wanted = 1
            if adaptive:
                cluster.adapt(target=lambda: wanted, interval=0.05, wait_count=1)
            for wanted in (4, 2, 3, 1):
                if not adaptive:
                    await cluster.scale(wanted)
                # One is enough to be shown the way; it has nothing else to tell.
                await until(lambda n=wanted: len(cluster.plan) == n)  # type: ignore[misc]
                await cluster.wait_for_workers(wanted, exactly=True)
            return [(hook, len(names)) for hook, names in cluster.calls]

    assert run(calls(adaptive=True)) == run(calls(adaptive=False))


def test_s04_recommendations_is_part_of_cluster() -> None:
    assert "recommendations" in vars(Cluster)

    async def main() -> None:
        async with bare(n_workers=1) as cluster:
            by_hand = await cluster.recommendations(3)
            cluster.adapt(minimum=1, maximum=1)
            assert await cluster.recommendations(3) == by_hand

    run(main())


def test_s05_workers_to_close_asks_the_scheduler() -> None:
    assert "workers_to_close" in vars(Cluster)

    async def main() -> None:
        async with (
            local(n_workers=3) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            workers = cluster.scheduler.workers
            for size, address in enumerate(workers):
                kept = "x" * 10_000 * (size + 1)
                await client.scatter([kept], workers=[address], hash=False)
            # The scheduler knows who has least to lose.
            assert (
                await cluster.workers_to_close(1)
                == [
                    str(state.name)
                    for state in sorted(
                        workers.values(), key=lambda state: state.nbytes
                    )
                ][:2]
            )

    run(main())


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_s05_workers_to_close_may_be_overridden(chosen: int) -> None:
    class Chooses(Bare):
        async def workers_to_close(self, target: int) -> list[str]:
            return [sorted(self.observed)[chosen]]

    async def main() -> None:
        async with bare(Chooses, n_workers=3) as cluster:
            before = sorted(cluster.observed)
            await cluster.scale(2)
            await cluster.wait_for_workers()
            assert cluster.observed == {*before} - {before[chosen]}

    run(main())


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_s06_scaling_down_does_not_remove_arbitrary_workers(empty: int) -> None:
    async def main() -> None:
        async with (
            local(n_workers=3) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            names = {
                info["name"]: address
                for address, info in cluster.scheduler_info["workers"].items()
            }
            idle = sorted(names)[empty]
            data = [
                await client.scatter("x" * 10_000, workers=[address], hash=False)
                for name, address in names.items()
                if name != idle
            ]
            await cluster.scale(2)
            await cluster.wait_for_workers()
            assert cluster.observed == set(map(str, names)) - {str(idle)}
            assert await client.gather(data) == ["x" * 10_000] * 2

    run(main())


def test_s07_a_subclass_must_implement_only_scale_up() -> None:
    inherited = {name for name in dir(Cluster) if not name.startswith("__")}
    assert inherited & vars(Bare).keys() == {"scale_up"}

    async def main() -> None:
        async with bare(n_workers=2) as cluster:
            (names,) = cluster.asked
            assert len(set(names)) == 2
            assert all(type(name) is str for name in names)
            assert cluster.observed == set(names)

    run(main())


def test_s07_what_is_missing_is_said() -> None:
    class Nothing(Cluster):
        pass

    async def main() -> None:
        async with Nothing(
            asynchronous=True, scheduler_options={"dashboard_address": "127.0.0.1:0"}
        ) as cluster:
            await cluster.scale(1)
            await until(lambda: "scale_up" in cluster.explain())
            assert cluster.requested == set()

    run(main())


def test_s08_only_scale_up_gives_manual_and_adaptive_scaling() -> None:
    async def main() -> None:
        async with bare() as cluster, Client(cluster, asynchronous=True) as client:
            await cluster.scale(2)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 2
            await cluster.scale(0)
            await cluster.wait_for_workers()
            assert cluster.observed == set()

            cluster.adapt(minimum=0, maximum=3, interval=0.05)
            assert await client.submit(abs, -1) == 1
            assert 1 <= len(cluster.observed) <= 3
            await until(lambda: not cluster.observed)

    run(main())


def test_s09_no_adaptive_class_is_needed() -> None:
    async def main() -> None:
        async with local(n_workers=0) as cluster:
            cluster.adapt(minimum=1, maximum=2, interval=0.05)
            await until(lambda: len(cluster.observed) == 1)
            assert cluster.mode == "adaptive"
            found = [one for one in gc.get_objects() if isinstance(one, AdaptiveCore)]
            assert found == []
            await asyncio.sleep(0)

    run(main())
