"""Workers that cannot start: tried a few times, later and later, and told why."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import dask
import pytest

from dask_fleet import StartError
from dask_fleet.core import Cause, EndingKind, FailureMemory
from dask_fleet.testing.fake_manager import FakeCluster
from tests.cluster.support import fake
from tests.faults.support import client_of, events_of, hook, local, run, told, until

pytestmark = pytest.mark.integration

#: What the workers' start-up hook says before the worker is there, and after.
BEFORE_ARRIVAL = "raise RuntimeError('the licence has run out')"
AFTER_ARRIVAL = """
import os, sys, threading

def dask_setup(worker):
    def end():
        print("the licence has run out", file=sys.stderr, flush=True)
        os._exit(7)
    worker.loop.call_later(0.1, end)
"""

QUICK = {
    "fleet.patience.first-pause": "50ms",
    "fleet.call-timeout": "200ms",
    "fleet.deadlines.start-fail": "200ms",
    "fleet.deadlines.leave": "100ms",
}


def starts_of(cluster: Any) -> int:
    return sum(len(event.workers) for event in events_of(cluster, Cause.STARTING))


def failures_of(cluster: Any) -> FailureMemory:
    memory: FailureMemory = cluster._control.fleet.failures
    return memory


async def until_given_up(cluster: Any) -> None:
    """Wait until no more starts are made."""
    patience = cluster._control.fleet.settings.patience
    await until(cluster, lambda: failures_of(cluster).is_open(patience))


@pytest.mark.parametrize("adaptive", [False, True], ids=["manual", "adaptive"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BEFORE_ARRIVAL, "RuntimeError: the licence has run out"),
        (AFTER_ARRIVAL, "ended with exit code 7; its last words:"),
    ],
    ids=["before arrival", "after arrival"],
)
def test_few_starts_in_the_first_minute_and_the_reason_everywhere(
    tmp_path: Path, text: str, words: str, adaptive: bool
) -> None:
    async def main() -> None:
        async with local(n_workers=0, preload=hook(tmp_path, text)) as cluster:
            if adaptive:
                cluster.adapt(minimum=4, maximum=4)
            else:
                await cluster.scale(4)
            await until_given_up(cluster)
            with pytest.raises(StartError, match="the licence has run out") as caught:
                await cluster.wait_for_workers()
            assert words in str(caught.value)
            assert starts_of(cluster) <= 10
            assert failures_of(cluster).pause > 60, "no more for the rest of the minute"
            assert cluster.state.health == "failed"
            for said in (cluster.explain(), cluster.state.last, repr(cluster)):
                assert words in said
                assert "the licence has run out" in said
            assert cluster.observed == cluster.requested == set()

    run(main())


class Late(FakeCluster):
    """Starts are accepted, and nothing comes."""

    def lose(self, name: str) -> bool:
        return True


class Raising(FakeCluster):
    async def before(self, hook: str, names: list[str]) -> None:
        if hook == "scale_up":
            raise OSError("the licence server is away")


class Hanging(FakeCluster):
    async def before(self, hook: str, names: list[str]) -> None:
        if hook == "scale_up":
            await asyncio.Event().wait()


class Refusing(FakeCluster):
    refuse = "the account is locked"


CLASSES = {
    "refused": (Refusing, EndingKind.REJECTED, "the account is locked"),
    "raises": (Raising, EndingKind.REJECTED, "the licence server is away"),
    "hangs": (Hanging, EndingKind.REJECTED, "scale_up did not return within 0.2 s"),
    "never arrives": (Late, EndingKind.VANISHED, "no worker came within 0.2 s"),
}


@pytest.mark.parametrize(
    ("kind", "ending", "words"), CLASSES.values(), ids=CLASSES.keys()
)
def test_classed_retried_and_given_up(
    kind: type[FakeCluster], ending: EndingKind, words: str
) -> None:
    """Pauses double from one try to the next, then there are no more tries."""

    async def main() -> None:
        async with fake(kind) as cluster:
            await cluster.scale(2)  # type: ignore[misc]  # it is asynchronous
            with pytest.raises(StartError, match=words):
                await cluster.wait_for_workers()
            failures = told(cluster, Cause.START_FAILED)
            assert f"({ending}): {words}" in failures
            tries = events_of(cluster, Cause.STARTING)
            sizes = [len(event.workers) for event in tries]
            assert sizes == [2, 1, 1], "all at first, then one to see whether it works"
            first, second = (
                late.time - early.time for early, late in itertools.pairwise(tries)
            )
            patience = cluster._control.fleet.settings.patience
            assert first >= patience.first_pause
            assert second >= 2 * patience.first_pause
            assert words in cluster.explain()
            assert cluster.state.health == "failed"

    with dask.config.set(QUICK):
        run(main())


@pytest.mark.parametrize("call", ["scale", "adapt"])
def test_another_call_of_the_user_tries_again(call: str) -> None:
    async def main() -> None:
        async with fake(Refusing) as cluster:
            await cluster.scale(2)  # type: ignore[misc]
            await until_given_up(cluster)
            tries = len(cluster.calls)
            cluster.refuse = None
            if call == "scale":
                await cluster.scale(2)  # type: ignore[misc]
            else:
                cluster.adapt(minimum=2, maximum=2)
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 2
            assert len(cluster.calls) == tries + 1, "both at once"
            assert cluster.state.health == "ok"

    with dask.config.set(QUICK):
        run(main())


def test_those_who_wait_are_told_at_once_when_no_more_starts_are_made() -> None:
    """All of them, whatever they wait for."""

    async def main() -> None:
        async with fake(Refusing) as cluster:
            await cluster.scale(2)  # type: ignore[misc]
            waits = [
                cluster.wait_for_workers(),
                cluster.wait_for_workers(1),
                cluster.wait_for_workers(2, exactly=True),
            ]
            answers = await asyncio.gather(*waits, return_exceptions=True)
            assert [type(answer) for answer in answers] == [StartError] * 3
            assert all("the account is locked" in str(answer) for answer in answers)

    with dask.config.set(QUICK):
        run(main())


def test_healthy_workers_go_on(tmp_path: Path) -> None:
    """Only what is missing fails; what is there works, and its results stay."""
    flag = tmp_path / "closed"
    text = f"""
import os
if os.path.exists({str(flag)!r}):
    raise RuntimeError('the licence has run out')
"""

    async def main() -> None:
        preload = hook(tmp_path, text)
        async with (
            local(n_workers=2, preload=preload) as cluster,
            client_of(cluster) as client,
        ):
            healthy = cluster.observed
            value = await client.scatter("kept")
            flag.touch()
            await cluster.scale(4)
            await until_given_up(cluster)
            assert cluster.observed == healthy
            assert cluster.state.health == "degraded"
            assert sum(await client.gather(client.map(abs, range(50)))) == 1225
            assert await value == "kept"
            with pytest.raises(StartError, match="the licence has run out"):
                await cluster.wait_for_workers()
            await cluster.scale(2)
            await cluster.wait_for_workers()
            assert cluster.observed == healthy

    run(main())


def test_of_a_bulk_only_the_refused_are_tried_again() -> None:
    async def main() -> None:
        async with fake() as cluster:
            full = {"2", "3"}
            cluster.refuse = lambda name: "no room for two" if name in full else None
            await cluster.scale(4)  # type: ignore[misc]
            await cluster.wait_for_workers(2)
            assert cluster.observed == {"0", "1"}
            await cluster.wait_for_workers()
            asked = [names for hook, names in cluster.calls if hook == "scale_up"]
            assert asked[0] == ("0", "1", "2", "3")
            assert sum(map(len, asked[1:])) == 2, "the missing ones, each once"
            assert {"0", "1"} < cluster.observed
            assert "no room for two" in told(cluster, Cause.START_FAILED)

    with dask.config.set(QUICK):
        run(main())
