"""The rows S10 to S17 of "What was asked for": adaptivity, and what stays as it was."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import distributed
import pytest
from distributed import Client, SpecCluster, Worker
from tornado.ioloop import PeriodicCallback

from dask_fleet import Cluster, LocalCluster
from dask_fleet.testing.fake_manager import FakeCluster
from tests.requests.support import Bare, bare, local, run, until

pytestmark = pytest.mark.integration


def test_s10_adaptivity_is_one_function_in_a_periodic_callback() -> None:
    class Wants(Bare):
        wanted = 1

        async def adaptive_target(self) -> int:
            return self.wanted

    async def main() -> None:
        async with bare(Wants) as cluster:
            handle = cluster.adapt(interval=0.05, wait_count=1)
            callback = handle.periodic_callback
            assert isinstance(callback, PeriodicCallback)
            assert callback.is_running()
            for wanted in (1, 3, 2):
                cluster.wanted = wanted
                await until(lambda n=wanted: len(cluster.observed) == n)  # type: ignore[misc]
            handle.stop()
            assert not callback.is_running()
            assert cluster.target == 2

    run(main())


def test_s11_the_function_can_be_replaced_in_a_subclass_and_is_bounded() -> None:
    class Greedy(Bare):
        async def adaptive_target(self) -> int:
            return 1000

    async def main() -> None:
        async with bare(Greedy) as cluster:
            cluster.adapt(minimum=1, maximum=3, interval=0.05)
            assert await cluster.safe_target() == 3
            await cluster.wait_for_workers(3, exactly=True)

    run(main())


def test_s11_its_default_is_the_schedulers_target_within_bounds() -> None:
    async def main() -> None:
        async with bare() as cluster, Client(cluster, asynchronous=True) as client:
            assert await cluster.adaptive_target() == 0
            futures = client.map(abs, range(-1000, 0), pure=False)
            await until(lambda: len(cluster.scheduler.tasks) == 1000)
            assert (
                await cluster.adaptive_target() >= cluster.scheduler.adaptive_target()
            )
            cluster.adapt(minimum=0, maximum=2, interval=1000)
            assert await cluster.safe_target() == 2
            await client.cancel(futures)

    run(main())


def test_s12_a_new_adapt_stops_and_replaces_the_old_one() -> None:
    async def main() -> None:
        calls: Counter[str] = Counter()

        def first() -> int:
            calls["first"] += 1
            return 3

        async def second() -> int:
            calls["second"] += 1
            return 1

        async with bare() as cluster:
            old = cluster.adapt(
                target=first, interval=0.05, wait_count=2, minimum=2, maximum=5
            )
            await cluster.wait_for_workers(3, exactly=True)
            new = cluster.adapt(target=second, interval=0.05, wait_count=1)
            before = calls["first"]
            await cluster.wait_for_workers(1, exactly=True)
            await until(lambda: calls["second"] > 10)
            assert calls["first"] == before
            assert (old.state, new.state) == ("stopped", "running")
            # Nothing of the first call is left in the second.
            assert new.minimum == 0
            assert new.calm == pytest.approx(0.05)

    run(main())


def test_s13_the_mro_shows_no_maze() -> None:
    assert LocalCluster.__mro__[:3] == (
        LocalCluster,
        Cluster,
        distributed.deploy.cluster.Cluster,
    )
    assert not any("daptive" in kind.__name__ for kind in LocalCluster.__mro__)
    assert SpecCluster not in LocalCluster.__mro__


def test_s14_manual_scaling_without_a_spec() -> None:
    assert not issubclass(Bare, SpecCluster)
    options = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with Bare(n_workers=1, scheduler_options=options) as cluster:
        for target in (3, 1, 2):
            cluster.scale(target)
            cluster.wait_for_workers(timeout=20)
            assert len(cluster.observed) == target


def test_s15_distributeds_own_clusters_keep_working() -> None:
    async def main() -> None:
        async with (
            local(n_workers=1) as ours,
            distributed.LocalCluster(
                n_workers=1,
                processes=False,
                dashboard_address=None,
                asynchronous=True,
            ) as theirs,
        ):
            assert isinstance(theirs, SpecCluster)
            theirs.scale(2)
            await theirs
            await until(lambda: len(theirs.scheduler_info["workers"]) == 2)
            assert len(ours.observed) == 1

    run(main())


def test_s15_the_constructor_takes_what_distributeds_takes() -> None:
    theirs = inspect.signature(distributed.LocalCluster).parameters
    ours = inspect.signature(LocalCluster).parameters
    deprecated = {"ip", "start"}
    assert theirs.keys() - deprecated <= ours.keys()
    for name in theirs.keys() - deprecated - {"kwargs"}:
        assert ours[name].default == theirs[name].default, name


def test_s16_the_cluster_keeps_the_books_of_what_it_started() -> None:
    async def main() -> None:
        async with FakeCluster(asynchronous=True) as cluster:
            cluster.delay = 1000
            await cluster.scale(2)
            # Accepted, and nowhere to be seen: the books know them all the same.
            assert cluster.calls == [("scale_up", tuple(sorted(cluster.plan)))]
            assert cluster.plan == cluster.requested
            assert cluster.observed == set()
            await cluster.scale(0)
            await until(lambda: len(cluster.calls) == 2)
            assert cluster.calls[1] == ("scale_down", cluster.calls[0][1][::-1])

    run(main())


def test_s16_what_others_started_is_seen_and_left_alone() -> None:
    async def main() -> None:
        async with bare(n_workers=1) as cluster:
            address = cluster.scheduler_address
            async with Worker(address, name="stranger", dashboard=False) as stranger:
                await until(lambda: "stranger" in cluster.observed)
                assert "stranger" not in cluster.plan
                await cluster.scale(0)
                await until(lambda: cluster.observed == {"stranger"})
                assert stranger.status is distributed.Status.running

    run(main())


def test_s17_decisions_are_logged_with_what_they_were_made_from() -> None:
    async def main() -> None:
        async with bare(n_workers=1) as cluster:
            await cluster.scale(3)
            await cluster.wait_for_workers()
            cluster.adapt(minimum=0, maximum=2, interval=0.05, wait_count=1)
            await until(lambda: not cluster.observed)
            history: list[Any] = list(cluster.events)
        scaled = [event for event in history if str(event.cause) == "scaled"]
        assert [(event.before, event.after) for event in scaled] == [(1, 3)]
        adapted = [event for event in history if str(event.cause) == "adapted"]
        assert adapted[-1].after == 0
        assert scaled[0].figures.items() >= {"before": 1, "after": 3}.items()
        assert all(event.sentence for event in history)
        times = [event.time for event in history]
        assert times == sorted(times)
        started = {
            name for e in history if str(e.cause) == "starting" for name in e.workers
        }
        assert len(started) == 3

    run(main())


def test_s17_decisions_reach_the_schedulers_event_log() -> None:
    async def main() -> None:
        async with bare(n_workers=1) as cluster:
            await cluster.scale(2)
            await cluster.wait_for_workers()
            sentence = next(
                event.sentence
                for event in cluster.events
                if str(event.cause) == "scaled"
            )

            def told() -> bool:
                topics = cluster.scheduler.get_events()
                return any(
                    sentence in str(message)
                    for entries in topics.values()
                    for _, message in entries
                )

            await until(told, limit=5)

    run(main())
