"""A forked child is like a spawned one: nothing of server or manager clings to it."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dask_fleet.processes import ForkServer
from tests.processes import probes
from tests.processes.support import fork_server, run


async def _in_child(function: Any, *args: Any, **environ: str) -> Any:
    async with fork_server(environ) as server:
        return await server.run(function, *args)


def test_chance_differs_and_hashes_agree() -> None:
    async def main() -> list[Any]:
        async with fork_server({"PYTHONHASHSEED": "6640"}) as server:
            runs = (server.run(probes.chance) for _ in range(4))
            return list(await asyncio.gather(*runs))

    floats, uuids, hashes = zip(*run(main()), strict=True)
    assert len(set(floats)) == 4
    assert len(set(uuids)) == 4
    assert len(set(hashes)) == 1


def test_surroundings_are_those_of_the_manager_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def main() -> Any:
        async with fork_server({"OMP_NUM_THREADS": "3"}) as server:
            await server.ready()
            monkeypatch.setenv("SET_LATER", "yes")
            monkeypatch.delenv("SET_BEFORE")
            monkeypatch.setattr(sys, "argv", ["me", "myself"])
            monkeypatch.syspath_prepend("/nowhere")
            monkeypatch.chdir(tmp_path)
            return await server.run(probes.surroundings)

    monkeypatch.setenv("SET_BEFORE", "yes")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    seen = run(main())
    assert seen["environ"]["OMP_NUM_THREADS"] == "3"
    assert seen["environ"]["SET_LATER"] == "yes"
    assert "SET_BEFORE" not in seen["environ"]
    assert seen["cwd"] == str(tmp_path)
    assert seen["argv"] == ["me", "myself"]
    assert seen["path"] == sys.path
    assert seen["stdin"] == "/dev/null"
    assert "OMP_NUM_THREADS" not in os.environ


def test_nothing_is_inherited() -> None:
    async def main() -> Any:
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        handler = logging.StreamHandler()
        logging.getLogger("of the manager").addHandler(handler)
        try:
            async with fork_server() as server:
                other = await server.fork(probes.sleep)
                seen = await server.run(probes.belongings)
                other.channel.close()
                return seen
        finally:
            logging.getLogger("of the manager").removeHandler(handler)
            os.close(reading)
            os.close(writing)

    seen = run(main())
    # stderr, the server's life line, the resource tracker; the channel; and stdin,
    # which multiprocessing opens anew.
    kinds = sorted(
        name.partition(":")[0] for fd, name in seen["descriptors"].items() if fd > 1
    )
    assert kinds == ["/dev/null", "pipe", "pipe", "pipe", "socket"]
    assert seen["inheritable"] == []
    assert seen["threads"] == ["MainThread"]
    assert seen["tasks"] == 1
    assert seen["handlers"] == {
        "SIGCHLD": "0",
        "SIGINT": "1",
        "SIGTERM": "0",
    } or seen["handlers"] == {
        "SIGCHLD": "Handlers.SIG_DFL",
        "SIGINT": "Handlers.SIG_IGN",
        "SIGTERM": "Handlers.SIG_DFL",
    }
    assert seen["wakeup"] == -1
    assert seen["loop"] is None
    assert seen["log"] == []
    assert seen["group"] == (os.getpgrp(), os.getsid(0))


def test_identity_is_that_of_a_spawned_process() -> None:
    seen = run(_in_child(probes.identity))
    assert seen["name"].startswith("call of")
    assert seen["daemon"]
    assert seen["authkey"] == bytes(multiprocessing.current_process().authkey)
    assert seen["method"] == "spawn"
    assert seen["parent"] == os.getpid()
    assert seen["parent_is_alive"]


def test_a_child_that_is_no_daemon_may_use_multiprocessing() -> None:
    async def main() -> Any:
        async with fork_server() as server:
            process = await server.fork(_report_grandchildren, daemon=False)
            pids = await process.channel.receive()
            report = await process.wait()
            return pids, report

    pids, report = run(main())
    assert len({*pids, os.getpid()}) == 3
    assert report.exitcode == 0, report.describe()


def _report_grandchildren(channel: Any) -> None:
    from dask_fleet.processes.channel import send_message

    send_message(channel, probes.pids_of_grandchildren())


def test_daemonic_children_have_no_daemonic_children() -> None:
    with pytest.raises(AssertionError, match="daemonic processes are not allowed"):
        run(_in_child(probes.pids_of_grandchildren))


def test_objects_of_multiprocessing_are_passed() -> None:
    async def main() -> Any:
        context = multiprocessing.get_context("spawn")
        queue = context.SimpleQueue()
        async with fork_server() as server:
            process = await server.fork(_put, (queue,))
            await process.wait()
        return queue.get(), process.pid

    got, pid = run(main())
    assert got == pid


def _put(channel: Any, queue: Any) -> None:
    queue.put(os.getpid())


def test_closures_are_passed() -> None:
    secret = object().__hash__()
    assert run(_in_child(lambda: secret + 1)) == secret + 1


def test_two_loops_in_two_threads() -> None:
    """A server belongs to one loop; loops do not know of each other."""
    pids: list[int] = []

    async def main() -> None:
        async with fork_server() as server:
            pids.append(await server.run(os.getppid))

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(pids)) == 3


def test_server_is_needed_to_fork() -> None:
    async def main() -> None:
        server = ForkServer()
        await server.release()
        await server.release()
        with pytest.raises(RuntimeError, match="released"):
            await server.run(os.getpid)

    run(main())


def test_time_zone_and_configuration_follow_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> Any:
        async with fork_server() as server:
            await server.ready()
            monkeypatch.setenv("TZ", "XXX-7")
            monkeypatch.setenv("DASK_FLEET_TEST__SET_LATER", "yes")
            return await server.run(_zone_and_configuration)

    assert run(main()) == (("XXX", "XXX"), "yes")


def _zone_and_configuration() -> tuple[tuple[str, str], str]:
    import time

    import dask

    return time.tzname, dask.config.get("fleet-test.set-later")


def test_log_files_are_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of the server may have opened one, whose descriptor a child closes."""
    log = tmp_path / "log"
    (tmp_path / "logs_into_a_file.py").write_text(
        "import logging\n"
        "logger = logging.getLogger('of the file')\n"
        f"logger.addHandler(logging.FileHandler({str(log)!r}))\n"
        "logger.warning('server')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    async def main() -> None:
        async with fork_server(preload=["logs_into_a_file"]) as server:
            await server.run(_log, "first")
            await server.run(_log, "second")

    run(main())
    assert log.read_text().split() == ["server", "first", "second"]


def _log(text: str) -> None:
    logging.getLogger("of the file").warning(text)


def test_what_the_server_printed_is_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prints.py").write_text("print('once')")
    monkeypatch.syspath_prepend(tmp_path)

    async def main() -> None:
        async with fork_server(preload=["prints"]) as server:
            await server.run(os.getpid)
            await server.run(os.getpid)

    run(main())
    assert capfd.readouterr().out == "once\n"


def test_modules_in_the_working_directory_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "socket", "logging"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert run(_in_child(os.getcwd)) == str(tmp_path)
