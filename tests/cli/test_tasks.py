"""Counting tasks, with a real scheduler in this process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from distributed import Client, Event, wait

from dask_fleet import Cluster, LocalCluster
from dask_fleet.cli.tasks import count_tasks
from dask_fleet.view import Tasks


def until(name: str) -> None:
    Event(name).wait()


def after(result: None) -> None:
    """Need another task's result."""


def fail() -> None:
    raise ValueError("as asked")


@pytest.mark.integration
def test_counts_of_every_kind() -> None:
    asyncio.run(counts_of_every_kind())


async def counts_of_every_kind() -> None:
    """1. Two threads, five tasks that wait for a word, one that needs them.

    2. The word is given. 3. A task that fails.
    """
    cluster = LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        dashboard_address=":0",
        asynchronous=True,
    )
    async with cluster, Client(cluster, asynchronous=True) as client:
        assert count_tasks(cluster) == Tasks()
        futures = client.map(until, ["word"] * 5, pure=False)
        last = client.submit(after, futures[0])
        while count_tasks(cluster) != Tasks(waiting=4, running=2):
            await asyncio.sleep(0.01)
        await Event("word", client=client).set()
        await wait([*futures, last])
        assert count_tasks(cluster) == Tasks(done=6)
        await wait(client.submit(fail))
        assert count_tasks(cluster) == Tasks(done=6, failed=1)


def test_scheduler_in_another_process() -> None:
    assert count_tasks(cast(Cluster, SimpleNamespace(scheduler=None))) is None
