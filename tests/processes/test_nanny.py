"""Nannies with warm workers do all that nannies do."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, cast

import dask
import pytest
from distributed import Client, Nanny, Status, Worker
from distributed.nanny import WorkerProcess

from dask_fleet.processes import ExitReport, ProcessEnded, WarmNanny, warm
from dask_fleet.processes.warm import _worker_kwargs
from tests.processes import probes
from tests.processes.support import (
    all_gone,
    causes,
    fork_server,
    nanny,
    run,
    scheduler,
)


def test_work_is_done_in_a_process_of_its_own() -> None:
    async def main() -> None:
        async with (
            scheduler() as s,
            nanny(s) as n,
            Client(s.address, asynchronous=True) as client,
        ):
            assert n.process is not None
            assert n.worker_address in s.workers
            assert await client.submit(os.getpid) == n.pid != os.getpid()
            assert n.worker_dir is not None
            assert Path(n.worker_dir).is_dir()
            process, directory = n.process, n.worker_dir
        assert process.last_exit == ExitReport(process.last_exit.pid, 0)
        assert not Path(directory).exists()

    run(main())


def test_environment() -> None:
    """Variables for the worker are there, and not here."""

    async def main() -> dict[str, str]:
        config = {"distributed.nanny.pre-spawn-environ.FROM_CONFIG": "7"}
        async with scheduler() as s:
            with dask.config.set(config):
                made = nanny(s, env={"FROM_ARGUMENT": 1}, config={"a.key": "value"})
            async with made, Client(s.address, asynchronous=True) as client:
                assert await client.submit(dask.config.get, "a.key") == "value"
                seen = await client.submit(probes.surroundings)
        return dict(seen["environ"])

    seen = run(main())
    wanted = {"FROM_CONFIG": "7", "FROM_ARGUMENT": "1", "PYTHONHASHSEED": "6640"}
    assert wanted.items() <= seen.items()
    assert not wanted.keys() & os.environ.keys() - {"PYTHONHASHSEED"}
    assert "__DASK_PARENT_PID" not in os.environ


def test_worker_kwargs_are_those_of_a_plain_nanny(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fails when a new version of distributed hands on something more."""
    handed_on: list[dict[str, Any]] = []

    class Spy(WorkerProcess):
        def __init__(self, **kwargs: Any) -> None:
            handed_on.append(kwargs)
            cast("Any", super()).__init__(**kwargs)

        async def start(self) -> Status:
            return Status.running

    async def main() -> tuple[set[str], dict[str, Any]]:
        monkeypatch.setattr("distributed.nanny.WorkerProcess", Spy)
        async with scheduler() as s:
            plain = Nanny(s.address, resources={"GPU": 1}, name="x", lifetime="1 hour")
            plain.status = Status.running
            await plain.listen("tcp://127.0.0.1")
            await plain.instantiate()
            expected = _worker_kwargs(plain)
            plain.process = None
            await plain.close()
        return set(handed_on[0]), handed_on[0]["worker_kwargs"] | {"?": expected}

    names, kwargs = run(main())
    expected = kwargs.pop("?")
    assert names == {
        "worker_kwargs",
        "silence_logs",
        "on_exit",
        "worker",
        "env",
        "pre_spawn_env",
        "config",
    }
    assert kwargs == expected


def test_dead_worker_is_started_again_and_reported() -> None:
    async def main() -> list[ExitReport]:
        reports: list[ExitReport] = []
        async with (
            scheduler() as s,
            nanny(s, on_worker_exit=reports.append) as n,
            Client(s.address, asynchronous=True) as client,
        ):
            first = n.pid
            assert first is not None
            directory = n.worker_dir
            os.kill(first, signal.SIGKILL)
            assert n.process is not None
            await n.process.stopped.wait()
            assert directory is not None
            assert not Path(directory).exists()
            assert not Path(directory + ".dirlock").exists()
            await n.process.running.wait()
            await client.wait_for_workers(1)
            assert await client.submit(os.getpid) == n.pid != first
            await client.restart()
            assert await client.submit(os.getpid) == n.pid
        assert [report.exitcode for report in reports] == [-signal.SIGKILL, 0, 0]
        return reports

    assert run(main())[0].stderr_tail == ""


def test_preload_that_raises(tmp_path: Path) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text("raise LookupError('no licence')")
    reports: list[ExitReport] = []

    async def main() -> None:
        async with scheduler() as s:
            made = nanny(s, preload=[str(hook)], on_worker_exit=reports.append)
            with pytest.raises(RuntimeError, match="failed to start") as caught:
                await made
            chain = causes(caught.value)
            assert "LookupError('no licence')" in map(repr, chain)
            assert [report.exitcode for report in reports] == [1]
            assert "hook.py" in str(chain[-1])
            assert made.status == Status.failed

    run(main())


class DiesAtBirth(Worker):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        os.write(2, b"out of luck\n")
        os._exit(17)


def test_worker_that_dies_at_birth() -> None:
    async def main() -> None:
        async with scheduler() as s:
            made = nanny(s, worker_class=DiesAtBirth)
            with pytest.raises(RuntimeError, match="failed to start") as caught:
                await made
            ended = next(
                error for error in causes(caught.value) if type(error) is ProcessEnded
            )
            assert ended.report.exitcode == 17
            assert ended.report.stderr_tail == "out of luck\n"

    run(main())


class NeverStarts(Worker):
    async def start_unsafe(self) -> Any:
        self.batched_stream = None  # type: ignore[assignment]
        await asyncio.Event().wait()


async def _start(made: Nanny) -> None:
    await made


def test_worker_that_never_starts_is_killed_at_once() -> None:
    async def main() -> None:
        async with scheduler() as s, fork_server() as server:
            made = nanny(s, fork_server=server, worker_class=NeverStarts)
            start = asyncio.create_task(_start(made))
            while made.worker_dir is None:  # its object has not been made yet
                await asyncio.sleep(0.01)
            directory, pid = made.worker_dir, made.pid
            assert made.process is not None
            await made.process.kill(reason="second thoughts")
            with pytest.raises(RuntimeError, match="failed to start") as caught:
                await start
            assert "stopped while it started (second thoughts)" in str(
                causes(caught.value)[-1]
            )
            assert pid is not None
            assert all_gone([pid])
            assert not Path(directory).exists()

    run(main())


def test_death_timeout() -> None:
    async def main() -> None:
        async with scheduler() as s, fork_server() as server:
            await server.ready()
            made = nanny(
                s, fork_server=server, worker_class=NeverStarts, death_timeout="500ms"
            )
            with pytest.raises(asyncio.TimeoutError):
                await made
            assert made.pid is None
            assert await server.run(probes.siblings) == []

    run(main())


def test_stubborn_worker_is_killed() -> None:
    async def main() -> ExitReport:
        async with (
            scheduler() as s,
            nanny(s) as n,
        ):
            process, pid = n.process, n.pid
            assert process is not None
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            await n.close(timeout=1)
            report = process.last_exit
        assert isinstance(report, ExitReport)
        return report

    assert run(main()).exitcode == -signal.SIGKILL


def test_multiprocessing_within_a_task() -> None:
    async def main() -> tuple[int, int]:
        with dask.config.set({"distributed.worker.daemon": False}):
            async with (
                scheduler() as s,
                nanny(s),
                Client(s.address, asynchronous=True) as client,
            ):
                pids: tuple[int, int] = await client.submit(
                    probes.pids_of_grandchildren
                )
                return pids

    assert len({*run(main()), os.getpid()}) == 3


class Shouting(Nanny):
    """A user's own nanny."""

    heard: str | None = None

    async def instantiate(self) -> Status:
        self.heard = "instantiate"
        return await super().instantiate()


def test_nannies_of_users() -> None:
    kind: Any = warm(Shouting)
    assert issubclass(kind, WarmNanny)
    assert issubclass(kind, Shouting)
    assert warm(Shouting) is kind is warm(kind)
    assert warm(Nanny) is WarmNanny

    async def main() -> None:
        async with scheduler() as s, nanny(s, kind) as n:
            assert isinstance(n, Shouting)
            assert n.heard == "instantiate"

    run(main())


def test_many_workers_share_one_server() -> None:
    async def main() -> None:
        async with scheduler() as s, fork_server() as server:
            nannies = [nanny(s, fork_server=server, name=i) for i in range(4)]
            await asyncio.gather(*nannies)
            assert len(s.workers) == 4
            assert len({n.pid for n in nannies}) == 4
            async with Client(s.address, asynchronous=True) as client:
                seen = await client.run(probes.chance)
                assert len({number for number, _, _ in seen.values()}) == 4
                parents = await client.run(os.getppid)
                assert set(parents.values()) == {server.pid}
            await asyncio.gather(*(n.close() for n in nannies))

    run(main())


def test_end_of_the_server_is_the_end_of_its_workers() -> None:
    """The nannies start their workers again, in another server."""

    async def main() -> None:
        reports: list[ExitReport] = []
        async with scheduler() as s, fork_server() as server:
            async with (
                nanny(s, fork_server=server, on_worker_exit=reports.append) as n,
                Client(s.address, asynchronous=True) as client,
            ):
                first = server.pid
                assert n.process is not None
                os.kill(first, signal.SIGKILL)
                await n.process.stopped.wait()
                await n.process.running.wait()
                await client.wait_for_workers(1)
                assert await client.submit(os.getppid) == server.pid != first
            assert reports[0].reason is not None
            assert f"its fork server {first}" in reports[0].reason

    run(main())
