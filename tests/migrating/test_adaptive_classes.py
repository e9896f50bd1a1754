"""A subclass of distributed's `Adaptive` that people bring along."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Adaptive

from dask_fleet.testing.fake_manager import FakeCluster
from tests.cluster.support import fake, run, until

pytestmark = pytest.mark.integration


class Fixed(Adaptive):
    """Wants what it was told, by an option of its own."""

    def __init__(self, *args: Any, wanted: int = 2, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wanted = wanted

    async def target(self) -> int:
        return self.wanted


class OldestFirst(Fixed):
    """Also says who leaves."""

    async def workers_to_close(self, target: int) -> list[str]:
        return sorted(self.observed)[: len(self.plan) - target]


class Patient(Adaptive):
    """Only has defaults of its own."""

    def __init__(self, cluster: Any, interval: str = "7s", **options: Any) -> None:
        super().__init__(cluster, interval=interval, **options)


class Meddler(Fixed):
    async def scale_up(self, n: Any) -> None:
        raise AssertionError("our loop starts workers")

    async def safe_target(self) -> int:
        return min(await super().safe_target(), 1)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Leave no policy behind: another test makes sure that none is needed."""
    yield
    gc.collect()


QUICK: dict[str, Any] = {"interval": "20ms", "wait_count": 1}


def adapted(cluster: FakeCluster, *args: Any, **options: Any) -> Any:
    with pytest.warns(DeprecationWarning, match="a class is no longer needed"):
        return cluster.adapt(*args, **{**QUICK, **options})


def test_its_target_is_asked_and_held_to_the_bounds() -> None:
    async def main() -> None:
        async with fake() as cluster:
            handle = adapted(cluster, Fixed, 0, 3, wanted=5)
            await cluster.wait_for_workers(3, exactly=True)
            handle.policy.wanted = 1
            await cluster.wait_for_workers(1, exactly=True)
            assert (handle.minimum, handle.maximum) == (0, 3)
            assert cluster.mode == "adaptive"

    run(main())


def test_its_choice_of_who_leaves_is_honoured() -> None:
    async def main() -> None:
        async with fake(n_workers=3) as cluster:
            adapted(cluster, Adaptive=OldestFirst, wanted=1)
            await cluster.wait_for_workers(1, exactly=True)
            assert cluster.observed == {"2"}

    run(main())


def test_the_handle_has_the_attributes_of_the_object() -> None:
    async def main() -> None:
        async with fake() as cluster:
            handle = adapted(cluster, Fixed, wanted=0)
            assert handle.wanted == 0
            assert await handle.safe_target() == 0
            assert cluster._adaptive is handle
            with pytest.raises(AttributeError, match="no_such_thing"):
                handle.no_such_thing  # type: ignore[union-attr]  # noqa: B018

    run(main())


def test_its_own_loop_sleeps() -> None:
    async def main() -> None:
        async with fake() as cluster:
            handle = adapted(cluster, Fixed)
            await cluster.wait_for_workers(2)
            assert handle.policy.state == "stopped"
            assert handle.policy.periodic_callback is None
            cluster.scale(1)
            assert handle.state == "stopped"
            await cluster.wait_for_workers(1, exactly=True)

    run(main())


def test_its_defaults_are_honoured_and_the_others_stay_as_configured() -> None:
    async def main() -> None:
        async with fake() as cluster:
            with pytest.warns(DeprecationWarning, match="class"):
                handle = cluster.adapt(Patient, maximum=2)
            assert handle.interval == 7
            assert handle.options.target is None  # the cluster's own policy
            assert handle.options.hurries

    run(main())


def test_the_warning_shows_what_to_write() -> None:
    async def main() -> None:
        async with fake() as cluster:
            with pytest.warns(DeprecationWarning, match="class") as told:
                cluster.adapt(Adaptive=OldestFirst)
            text = str(told[0].message)
            assert "async def target(): ..." in text
            assert "cluster.adapt(target=target)" in text
            assert "class MyFakeCluster(FakeCluster):" in text
            assert "Not used" not in text

    run(main())


def test_what_belongs_to_the_loop_is_said_to_be_unused() -> None:
    async def main() -> None:
        async with fake() as cluster:
            with pytest.warns(
                DeprecationWarning, match="Not used: scale_up of Meddler"
            ):
                cluster.adapt(Meddler, **QUICK)
            await cluster.wait_for_workers(1, exactly=True)
            await until(cluster, lambda: cluster.target == 1)

    run(main())


def test_distributeds_own_class_changes_nothing() -> None:
    async def main() -> None:
        async with fake() as cluster:
            handle = cluster.adapt(Adaptive=Adaptive, minimum=1, maximum=2)
            assert (handle.minimum, handle.maximum) == (1, 2)

    run(main())


@pytest.mark.parametrize("wrong", [3, object, Fixed, "Adaptive"])
def test_anything_else_is_refused(wrong: Any) -> None:
    async def main() -> None:
        async with fake() as cluster:
            one: Any = Fixed(None) if wrong is Fixed else wrong
            with pytest.raises(TypeError, match="must be a subclass of distributed"):
                cluster.adapt(one, 10)
            assert cluster.mode == "manual"

    run(main())


def test_a_keyword_that_nobody_knows_is_refused() -> None:
    async def main() -> None:
        async with fake() as cluster:
            with pytest.raises(TypeError, match="does not know memory_ratio"):
                cluster.adapt(memory_ratio=3)

    run(main())


def test_bounds_may_be_set_while_it_is_at_work() -> None:
    async def main() -> None:
        async with fake() as cluster:
            handle = cluster.adapt(target=lambda: 2, **QUICK)
            await cluster.wait_for_workers(2)
            handle.minimum = 3
            await cluster.wait_for_workers(3, exactly=True)
            handle.minimum = 0
            handle.maximum = 1
            await cluster.wait_for_workers(1, exactly=True)
            with pytest.raises(TypeError, match="maximum must be"):
                handle.maximum = "many"  # type: ignore[assignment]

    run(main())
