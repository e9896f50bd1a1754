from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import dask
import pytest
from distributed import Worker
from distributed.core import Status

from dask_fleet import LocalCluster, WorkerReport
from dask_fleet.cluster import Cluster
from dask_fleet.testing.contract import ContractBroken, Faults, check_cluster
from dask_fleet.testing.fake_manager import FakeCluster

pytestmark = pytest.mark.integration

ALWAYS = {
    *("opens", "hooks", "names", "work", "scale down", "gone is no error"),
    *("never twice", "withdrawn", "replaced", "adaptive", "default policy"),
    *("close", "close during start"),
}


def switch(attribute: str) -> Any:
    return lambda cluster, value: setattr(cluster, attribute, value)


#: So that those who never let go do not hold up the tests for long.
QUICK = {"fleet.close-timeout": "1s"}

FAULTS = Faults(
    refuse=switch("refuse"),
    slow=switch("delay"),
    vanish=lambda cluster, name: cluster.vanish(name),
)


class Pairs(FakeCluster):
    workers_per_instance = 2


class Polled(FakeCluster):
    async def poll(self) -> Mapping[str, WorkerReport]:
        asked = {name for hook, names in self.calls for name in names}
        return {
            name: WorkerReport("running" if name in self.lives else "gone")
            for name in asked
        }


# -- those that keep it ----------------------------------------------------------------


def test_a_made_up_resource_manager_with_all_faults() -> None:
    made: list[Polled] = []

    def make() -> Polled:
        made.append(Polled())
        return made[-1]

    checked = check_cluster(
        make,
        faults=FAULTS,
        leftovers=lambda: [name for one in made for name in one.lives],
    )
    assert set(checked) == ALWAYS | {"refused", "slow", "poll"}
    assert len(made) == 2


def test_instances_of_two_workers() -> None:
    assert set(check_cluster(Pairs)) == ALWAYS | {"instances"}


@pytest.mark.parametrize("processes", [True, False])
def test_local_cluster(processes: bool) -> None:
    def make() -> LocalCluster:
        return LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=processes,
            dashboard_address=":0",
        )

    def leftovers() -> list[object]:
        return [one for one in Worker._instances if one.status is not Status.closed]

    assert set(check_cluster(make, leftovers=leftovers)) == ALWAYS


# -- those that break it ---------------------------------------------------------------


class NoScaleUp(Cluster):
    def __init__(self) -> None:
        local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        super().__init__(scheduler_options=local)


class PlainScaleUp(FakeCluster):
    def scale_up(self, workers: list[str]) -> None:  # type: ignore[override]
        pass


class OtherNames(FakeCluster):
    """The name does not reach the worker."""

    async def scale_up(self, workers: list[str]) -> dict[str, str]:
        return await super().scale_up([f"worker-{name}" for name in workers])


class Strict(FakeCluster):
    """A name that is gone is an error."""

    async def scale_down(self, workers: list[str]) -> None:
        for name in workers:
            self.lives[name].cancel()


class WrongOne(FakeCluster):
    """Drops others than it was asked to."""

    async def scale_down(self, workers: list[str]) -> None:
        others = [name for name in self.lives if name not in workers]
        await super().scale_down([*workers, *others][: len(workers) + 1])


class NeverLetsGo(FakeCluster):
    async def scale_down(self, workers: list[str]) -> None:
        pass


class DropsAllForUnknown(FakeCluster):
    async def scale_down(self, workers: list[str]) -> None:
        unknown = "no-such-worker" in workers
        await super().scale_down(list(self.lives) if unknown else workers)


class OtherWords(FakeCluster):
    async def scale_up(self, workers: list[str]) -> dict[str, str]:
        return dict.fromkeys(await super().scale_up(workers), "something went wrong")


class WaitsForArrival(FakeCluster):
    """Returns once the workers run, not once they are accepted."""

    async def scale_up(self, workers: list[str]) -> dict[str, str]:
        refused = await super().scale_up(workers)
        while not self.observed.issuperset(set(workers) - refused.keys()):
            await asyncio.sleep(0.01)
        return refused


class SaysRunning(FakeCluster):
    async def poll(self) -> Mapping[str, WorkerReport]:
        asked = {name for hook, names in self.calls for name in names}
        return {name: WorkerReport("running") for name in asked}


class SaysAnything(FakeCluster):
    async def poll(self) -> Mapping[str, WorkerReport]:
        return dict.fromkeys(self.lives, "running")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "clause", "words"),
    [
        (NoScaleUp, "hooks", "a cluster must have: async def scale_up"),
        (PlainScaleUp, "hooks", "scale_up must be a coroutine function"),
        (OtherNames, "names", "which scale_up was never given"),
        (Strict, "gone is no error", "must be no error; got KeyError"),
        (DropsAllForUnknown, "gone is no error", "must leave the others alone"),
        (WrongOne, "scale down", ""),
        (NeverLetsGo, "scale down", "not within 2 s: exactly 1 worker"),
        (OtherWords, "refused", "must have the resource manager's words"),
        (WaitsForArrival, "slow", "once the start is accepted"),
        (SaysRunning, "poll", "is running, and it has left"),
        (SaysAnything, "poll", "must give a WorkerReport for each name"),
    ],
)
def test_the_broken_clause_is_named(kind: Any, clause: str, words: str) -> None:
    with dask.config.set(QUICK), pytest.raises(ContractBroken) as caught:
        check_cluster(kind, faults=FAULTS, timeout=2)
    assert caught.value.clause == clause
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"clause {clause!r} is broken: ")


def test_something_left_is_named() -> None:
    with pytest.raises(ContractBroken, match=r"something is left: \['job 17'\]"):
        check_cluster(FakeCluster, leftovers=lambda: ["job 17"], timeout=5)


def test_a_cluster_that_is_none() -> None:
    with pytest.raises(
        ContractBroken, match=r"make\(\) must give a dask_fleet.Cluster"
    ):
        check_cluster(lambda: 3)  # type: ignore[arg-type, return-value]


def test_a_cluster_that_is_asynchronous() -> None:
    async def main() -> None:
        cluster = FakeCluster(asynchronous=True)
        with pytest.raises(ContractBroken, match="must give a synchronous cluster"):
            check_cluster(lambda: cluster)
        await cluster.close()

    asyncio.run(main())


def test_a_cluster_that_is_closed() -> None:
    def make() -> FakeCluster:
        cluster = FakeCluster()
        cluster.close()
        return cluster

    with pytest.raises(ContractBroken, match="must be running; it is closed"):
        check_cluster(make)


def test_starts_that_never_come_are_named() -> None:
    class Forgets(FakeCluster):
        def lose(self, name: str) -> bool:
            return True

    with pytest.raises(ContractBroken, match="clause 'names'") as caught:
        check_cluster(Forgets, timeout=1)
    assert "not within 1 s: exactly 2 worker(s)" in str(caught.value)
    assert "0: asked for, not here yet for 1." in str(caught.value)


def test_a_name_may_reach_the_worker_as_a_number() -> None:
    class Numbers(FakeCluster):
        async def _live(self, name: str) -> None:
            async with Worker(self.scheduler_address, name=int(name), nthreads=1) as w:
                await w.finished()

    assert "names" in check_cluster(Numbers)
