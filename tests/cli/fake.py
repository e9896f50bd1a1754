"""A stand-in for a cluster, and ``dask fleet`` with it: ``python -m tests.cli.fake``.

What it does is chosen with variables: ``FAKE_START`` is an error at the start,
``FAKE_SLOW`` a start that never ends, ``FAKE_WORKERS`` an error of the workers,
``FAKE_OVER`` why the cluster ends by itself, ``FAKE_STUCK`` a close that never ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from dask_fleet.cli.options import FleetOptions
from dask_fleet.cluster import Cluster
from dask_fleet.cluster.errors import StartError
from dask_fleet.core import Cause
from dask_fleet.core.events import Event


@dataclass(frozen=True)
class FakeState:
    mode: str = "manual"
    target: int = 2
    plan: int = 2
    requested: int = 2
    observed: int = 2
    minimum: int | None = None
    maximum: int | None = None
    health: str = "ok"
    last: str = "scale(2) was called: 0 -> 2 workers"


def _event(cause: Cause) -> Event:
    return Event(0.0, cause, 0, 2, (), Cause.SCALED, "because")


class FakeCluster:
    """As much of a cluster as the commands use, without any process."""

    scheduler_address = "tcp://127.0.0.1:1"
    dashboard_link = "http://127.0.0.1:2/status"

    def __init__(self, **environment: str) -> None:
        self.state = FakeState()
        self.events = tuple(map(_event, (Cause.SCALED, Cause.STARTING, Cause.ARRIVED)))
        self.status = SimpleNamespace(name="running")
        self._environment = environment

    @property
    def target(self) -> int:
        return self.state.target

    def __await__(self) -> Generator[Any, None, FakeCluster]:
        return self._start().__await__()

    async def _start(self) -> FakeCluster:
        if error := self._environment.get("FAKE_START"):
            raise OSError(error)
        if "FAKE_SLOW" in self._environment:
            print("starting", flush=True)
            await asyncio.Event().wait()
        if error := self._environment.get("FAKE_OVER"):
            self.state = replace(self.state, health="failed", last=error)
            self.status = SimpleNamespace(name="failed")
        return self

    def adapt(self, *, minimum: int, maximum: int | None) -> None:
        self.state = replace(
            self.state, mode="adaptive", minimum=minimum, maximum=maximum
        )

    async def wait_for_workers(self, n_workers: int) -> None:
        assert n_workers > 0
        if error := self._environment.get("FAKE_WORKERS"):
            self.state = replace(self.state, observed=0, health="failed", last=error)
            # As late as the watch needs to see it.
            await asyncio.sleep(0)
            raise StartError(error)

    async def close(self) -> None:
        if "FAKE_STUCK" in self._environment:
            print("closing", flush=True)
            await asyncio.Event().wait()


def build_fake(options: FleetOptions) -> Cluster:
    return cast(Cluster, FakeCluster(**os.environ))


if __name__ == "__main__":
    from dask_fleet.cli import build, fleet

    build.build = build_fake
    fleet(prog_name="dask fleet")
