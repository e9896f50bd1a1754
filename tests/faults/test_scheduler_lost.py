"""The scheduler dies or its connection breaks: never a picture that stands still."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import dask
import pytest
from distributed.core import Status

from dask_fleet import ClosedError
from dask_fleet.core import Cause
from dask_fleet.testing.fake_manager import FakeCluster
from tests.cluster.support import fake
from tests.faults.support import events_of, local, run, soon, until

pytestmark = pytest.mark.integration

#: Seconds until the scheduler's end is known, on a busy machine.
SECONDS = 20


class Proxy:
    """Stands between a manager and its scheduler, and can cut the wire."""

    def __init__(self, port: int) -> None:
        self._goal = port
        self._wires: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        self.cut()

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break all connections; new ones are let through."""
        for wire in self._wires:
            wire.transport.abort()

    def close(self) -> None:
        """Let no new connection through."""
        assert self._server is not None
        self._server.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._goal)
        await asyncio.gather(
            self._pass_on(reader, there[1]), self._pass_on(there[0], writer)
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._wires.add(writer)
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        self._wires.discard(writer)
        writer.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False


@contextlib.asynccontextmanager
async def scheduler_process(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A scheduler in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "dask",
            "scheduler",
            "--host",
            f"tcp://127.0.0.1:{port}",
        ),
        *("--no-dashboard", "--no-show"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        while not await _listens(port):
            await asyncio.sleep(0.05)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def far_apart() -> AsyncIterator[tuple[Any, asyncio.subprocess.Process]]:
    """A cluster of workers in this process whose scheduler is elsewhere."""
    port = free_port()
    async with (
        scheduler_process(port) as process,
        fake(scheduler=f"tcp://127.0.0.1:{port}", n_workers=2) as cluster,
    ):
        yield cluster, process


def test_the_connection_breaks_and_is_made_again() -> None:
    """To the same scheduler: what has happened meanwhile is seen."""

    async def main() -> None:
        port = free_port()
        async with (
            scheduler_process(port),
            Proxy(port) as proxy,
            fake(scheduler=proxy.address, n_workers=2) as cluster,
        ):
            proxy.cut()
            await until(cluster, lambda: bool(events_of(cluster, Cause.RECONNECTED)))
            await cluster.scale(3)  # type: ignore[misc]  # it is asynchronous
            await cluster.wait_for_workers()
            assert len(cluster.observed) == 3
            assert cluster.status is Status.running

    run(main())


def test_the_scheduler_of_this_process_ends() -> None:
    async def main() -> None:
        async with local(n_workers=2) as cluster:
            pids = [nanny.pid for nanny in cluster.workers.values()]
            waiting = asyncio.ensure_future(cluster.wait_for_workers(3))
            await asyncio.sleep(0)
            await cluster.scheduler.close()
            with pytest.raises(ClosedError, match="the scheduler has ended"):
                await asyncio.wait_for(waiting, SECONDS)
            assert cluster.status is Status.failed
            assert cluster.observed == set()
            with pytest.raises(ClosedError, match="the scheduler has ended"):
                cluster.scale(3)
            for said in (cluster.explain(), cluster.state.last, repr(cluster)):
                assert "the scheduler has ended" in said
            await soon(lambda: not any(map(_is_there, pids)))

    run(main())


def _is_there(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize("adaptive", [False, True], ids=["manual", "adaptive"])
def test_a_scheduler_elsewhere_is_killed(adaptive: bool) -> None:
    async def main() -> None:
        async with far_apart() as (cluster, scheduler):
            if adaptive:
                cluster.adapt(minimum=2, maximum=4)
            cluster.before = _never
            pending = [
                asyncio.ensure_future(one)
                for one in (
                    cluster.wait_for_workers(5),
                    cluster.wait_for_workers(0, exactly=True),
                    cluster._control.accepted(),
                )
            ]
            cluster._control.follow(4)
            await asyncio.sleep(0)
            scheduler.send_signal(signal.SIGKILL)
            answers = await asyncio.wait_for(
                asyncio.gather(*pending, return_exceptions=True), SECONDS
            )
            assert [type(answer) for answer in answers] == [ClosedError] * 3
            assert "the scheduler does not answer" in str(answers[0])
            cluster.before = _at_once
            assert cluster.status is Status.failed
            assert cluster.observed == set()
            await soon(lambda: not cluster.lives, SECONDS)
            assert cluster.mode == "manual", "nobody asks for a target any more"
            assert "the cluster has failed" in cluster.explain()

    with dask.config.set({"fleet.deadlines.reconnect": "2s"}):
        run(main())


async def _never(hook: str, names: list[str]) -> None:
    await asyncio.Event().wait()


async def _at_once(hook: str, names: list[str]) -> None:
    return


def test_another_scheduler_in_its_place_is_not_taken_for_it() -> None:
    async def main() -> None:
        port = free_port()
        async with Proxy(port) as proxy:
            async with scheduler_process(port):
                cluster: Any = await FakeCluster(
                    scheduler=proxy.address, n_workers=1, asynchronous=True
                )
            async with scheduler_process(port):
                await until(cluster, lambda: cluster.status is Status.failed)
                assert "another scheduler answers" in cluster.state.last
                await cluster.close()

    run(main())
