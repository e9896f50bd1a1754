"""`scale_up` and `scale_down` called as distributed's clusters allow it."""

from __future__ import annotations

import pytest

from dask_fleet.core import Cause
from dask_fleet.testing.fake_manager import FakeCluster
from tests.cluster.support import events_of, fake, run

pytestmark = pytest.mark.integration


def test_scale_up_with_a_number_is_scale() -> None:
    async def main() -> None:
        async with fake() as cluster:
            await cluster.scale_up(2)  # type: ignore[arg-type]
            assert cluster.target == 2
            await cluster.wait_for_workers(2, exactly=True)

    run(main())


def test_scale_down_with_names_lets_these_go_for_good() -> None:
    async def main() -> None:
        async with fake(n_workers=3) as cluster:
            await cluster.scale_down(["0", 1])  # type: ignore[list-item]
            assert cluster.target == 1
            await cluster.wait_for_workers()
            assert cluster.observed == {"2"}
            (told,) = events_of(cluster, Cause.DISMISSED)
            assert "2 worker(s) were chosen to leave: 3 -> 1" in told.sentence

    run(main())


def test_scale_down_takes_addresses_too() -> None:
    async def main() -> None:
        async with fake(n_workers=2) as cluster:
            workers = cluster.scheduler_info["workers"]
            (address,) = [a for a, info in workers.items() if info["name"] == "1"]
            await cluster.scale_down([address])
            await cluster.wait_for_workers()
            assert cluster.observed == {"0"}

    run(main())


def test_scale_down_of_strangers_changes_nothing() -> None:
    async def main() -> None:
        async with fake(n_workers=1) as cluster:
            await cluster.scale_down(["nobody"])
            assert (cluster.target, cluster.observed) == (1, {"0"})

    run(main())


def test_from_a_thread_as_well() -> None:
    with FakeCluster() as cluster:
        cluster.scale_up(2)
        cluster.wait_for_workers(2)
        cluster.scale_down(["0"])
        cluster.wait_for_workers(1, exactly=True)
        assert cluster.observed == {"1"}


def test_a_hook_of_a_subclass_may_still_call_its_parent() -> None:
    class Counting(FakeCluster):
        started: tuple[str, ...] = ()

        async def scale_up(self, workers: list[str]) -> dict[str, str]:
            self.started += tuple(workers)
            return await super().scale_up(workers)

    async def main() -> None:
        async with Counting(asynchronous=True) as cluster:
            cluster.scale(2)
            await cluster.wait_for_workers()
            assert cluster.started == ("0", "1")

    run(main())
