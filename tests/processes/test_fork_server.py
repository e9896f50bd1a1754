"""The server: shared, counted, warm, and gone without a trace."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import psutil
import pytest

from dask_fleet.processes import ForkServer, ForkServerError
from tests.processes import probes
from tests.processes.support import all_gone, descriptors, fork_server, run


def test_one_server_for_all_with_the_same_arguments() -> None:
    async def main() -> None:
        one = ForkServer({"A": "1", "B": "2"}, ["json"])
        same = ForkServer({"B": "2", "A": "1"}, ["json"])
        other = ForkServer({"A": "1"}, ["json"])
        assert one.pid == same.pid != other.pid
        await one.release()
        assert await same.run(os.getppid) == same.pid
        pids = [same.pid, other.pid]
        await same.release()
        await other.release()
        assert all(not psutil.pid_exists(pid) for pid in pids), "waited for"

    run(main())


def test_start_returns_at_once() -> None:
    """Requests may be made long before the server can answer."""

    async def main() -> list[int]:
        async with fork_server() as server:
            return await asyncio.gather(*(server.run(os.getppid) for _ in range(4)))

    assert len(set(run(main()))) == 1


def test_preload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "costly.py").write_text("import os; pid = os.getpid()")
    monkeypatch.syspath_prepend(tmp_path)

    async def main() -> tuple[int, int]:
        async with fork_server(preload=["costly"]) as server:
            return await server.run(_costly), server.pid

    imported_in, server = run(main())
    assert imported_in == server


def _costly() -> int:
    import costly  # type: ignore[import-not-found]

    pid: int = costly.pid
    return pid


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise ValueError('no licence')", "ValueError: no licence"),
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
        (
            "import threading; event = threading.Event();"
            "threading.Thread(target=event.wait, name='busy', daemon=True).start()",
            "started threads: busy",
        ),
    ],
)
def test_bad_preload(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_preload.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    async def main() -> None:
        async with fork_server(preload=["bad_preload"]) as server:
            with pytest.raises(ForkServerError, match=reason):
                await server.ready()
            with pytest.raises(ForkServerError, match=reason):
                await server.fork(probes.sleep)

    run(main())


def test_nothing_is_left_over_many_cycles() -> None:
    async def cycle() -> None:
        async with fork_server() as server:
            await asyncio.gather(*(server.run(os.getpid) for _ in range(3)))
            ended = await server.fork(probes.sleep)
            ended.kill()
            await ended.wait()
            await server.fork(probes.sleep)

    run(cycle())  # multiprocessing starts its resource tracker
    before = descriptors(), threading.active_count(), len(psutil.Process().children())
    for _ in range(5):
        run(cycle())
    after = descriptors(), threading.active_count(), len(psutil.Process().children())
    assert after == before


def test_server_dies_with_unreleased_share() -> None:
    async def main() -> tuple[int, int | None]:
        server = ForkServer()
        process = await server.fork(probes.sleep)
        return server.pid, process.pid

    server, child = run(main())
    # The loop is closed and nobody refers to the server any more.
    import gc

    with pytest.warns(ResourceWarning):
        gc.collect()
    assert child is not None
    assert all_gone([server, child])


def test_a_forked_copy_of_the_manager_does_no_harm() -> None:
    async def main() -> None:
        async with fork_server() as server:
            process = await server.fork(probes.sleep)
            pid = os.fork()
            if pid == 0:
                # All that a copy may try, in order or not.
                process.kill()
                process.channel.close()
                os._exit(0)
            os.waitpid(pid, 0)
            assert process.is_alive()
            assert await server.run(os.getppid) == server.pid
            process.kill()
            assert (await process.wait()).exitcode == -9

    run(main())


def test_refusal_of_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    async def main() -> None:
        async with fork_server() as server:
            await server.ready()
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (9, 9))
            with pytest.raises(OSError, match="Too many open files"):
                await server.fork(probes.sleep)

    run(main())


def test_calls_end_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    """What a function printed is not lost in a buffer."""

    async def main() -> None:
        async with fork_server() as server:
            await server.run(print, "printed")

    run(main())
    assert capfd.readouterr().out == "printed\n"


def test_repr_starts_nothing() -> None:
    async def main() -> None:
        server = ForkServer()
        assert f"pid={server.pid} running" in repr(server)
        os.kill(server.pid, 9)
        with pytest.raises(ForkServerError, match="signal 9"):
            await server.ready()
        assert "was killed by signal 9" in repr(server)
        await server.release()
        assert "released" in repr(server)

    run(main())


def test_blocked_signals_are_not_inherited() -> None:
    import signal

    async def main() -> set[int]:
        async with fork_server() as server:
            return await server.run(signal.pthread_sigmask, signal.SIG_BLOCK, ())

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGUSR1})
    try:
        assert run(main()) == set()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
