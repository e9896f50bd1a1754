"""Every end is noticed at once, with exit code and last words."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from dask_fleet.processes import ExitReport, ForkServerError, ProcessEnded
from tests.processes import probes
from tests.processes.support import all_gone, fork_server, run


def _end_of(target: Any, args: Sequence[Any] = ()) -> ExitReport:
    async def main() -> ExitReport:
        async with fork_server() as server:
            process = await server.fork(target, args)
            assert process.is_alive()
            report = await process.wait()
            assert not process.is_alive()
            assert (process.pid, process.exitcode) == (report.pid, report.exitcode)
            return report

    return run(main())


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code_and_last_words(code: int) -> None:
    report = _end_of(probes.say_and_exit, ("no space left", code))
    assert (report.exitcode, report.stderr_tail) == (code, "no space left\n")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_signal(signum: signal.Signals) -> None:
    report = _end_of(probes.die, (signum,))
    assert report.exitcode == -signum
    assert f"was killed by signal {signum:d} ({signum.name})" in report.describe()


def test_exception_is_among_the_last_words() -> None:
    report = _end_of(probes.raise_error)
    assert report.exitcode == 1
    assert report.stderr_tail.endswith("LookupError: nothing of the kind\n")


def test_last_words_are_the_last_ones(capfd: pytest.CaptureFixture[str]) -> None:
    report = _end_of(probes.write_much, (5000,))
    lines = report.stderr_tail.splitlines()
    assert len(lines) == 50
    assert lines[-1].startswith("line 4999 ")
    written = capfd.readouterr().err.splitlines()
    assert [line.split()[1] for line in written] == [str(i) for i in range(5000)]


def test_end_is_noticed_though_a_grandchild_keeps_stderr() -> None:
    async def main() -> tuple[ExitReport, int]:
        async with fork_server() as server:
            process = await server.fork(_leave_a_child)
            grandchild = await process.channel.receive()
            return await process.wait(), grandchild

    report, grandchild = run(main())
    os.kill(grandchild, signal.SIGKILL)
    assert report.stderr_tail == "the parent\n"


def _leave_a_child(channel: Any) -> None:
    import subprocess
    import sys

    from dask_fleet.processes.channel import send_message

    print("the parent", file=sys.stderr)
    send_message(channel, subprocess.Popen(["sleep", "60"]).pid)


def test_callbacks() -> None:
    async def main() -> list[ExitReport]:
        seen: list[ExitReport] = []
        async with fork_server() as server:
            process = await server.fork(probes.sleep)
            process.on_exit(seen.append)
            process.terminate()
            report = await process.wait()
            process.on_exit(seen.append)
        assert seen == [report, report]
        return seen

    assert run(main())[0].exitcode == -signal.SIGTERM


def test_stopped_process_can_be_killed() -> None:
    async def main() -> ExitReport:
        async with fork_server() as server:
            process = await server.fork(probes.sleep)
            process.send_signal(signal.SIGSTOP)
            process.kill()
            return await process.wait()

    assert run(main()).exitcode == -signal.SIGKILL


def test_signals_after_the_end_do_nothing() -> None:
    async def main() -> None:
        async with fork_server() as server:
            process = await server.fork(probes.say_and_exit, ("", 0))
            await process.wait()
            process.kill()
            assert await server.run(os.getppid) == server.pid

    run(main())


def test_function_that_does_not_return() -> None:
    async def main() -> None:
        async with fork_server() as server:
            with pytest.raises(ProcessEnded, match="exit code 7") as caught:
                await server.run(os._exit, 7)
            assert caught.value.report.exitcode == 7

    run(main())


def test_release_kills_what_is_left() -> None:
    async def main() -> tuple[list[ExitReport], list[int]]:
        async with fork_server() as server:
            plain = await server.fork(probes.sleep)
            stuck = await server.fork(probes.sleep_in_c)
            stopped = await server.fork(probes.sleep)
            stopped.send_signal(signal.SIGSTOP)
            processes = [plain, stuck, stopped]
        reports = [await process.wait() for process in processes]
        return reports, [
            server_pid
            for server_pid in [report.pid for report in reports]
            if server_pid
        ]

    reports, pids = run(main())
    assert len(pids) == 3
    assert all_gone(pids)
    assert {report.exitcode for report in reports} == {-signal.SIGKILL}
    assert {report.reason for report in reports} == {"its fork server was released"}


def test_end_of_the_server() -> None:
    """All its processes are reported; the next request starts another server."""

    async def main() -> list[int]:
        async with fork_server() as server:
            first = server.pid
            plain = await server.fork(probes.sleep)
            stuck = await server.fork(probes.sleep_in_c)
            stopped = await server.fork(probes.sleep)
            stopped.send_signal(signal.SIGSTOP)
            # The stop has been sent once a later request was answered.
            await server.run(os.getpid)
            os.kill(first, signal.SIGKILL)
            reports = await asyncio.gather(plain.wait(), stuck.wait(), stopped.wait())
            for report in reports:
                assert report.exitcode == -signal.SIGKILL
                assert report.reason == (
                    f"its fork server {first} was killed by signal 9 (SIGKILL)"
                )
            assert await server.run(os.getppid) == server.pid != first
            return [report.pid for report in reports if report.pid is not None]

    pids = run(main())
    assert len(pids) == 3
    assert all_gone(pids)


def test_end_of_the_server_during_a_start() -> None:
    async def main() -> None:
        async with fork_server() as server:
            start = asyncio.create_task(server.fork(probes.sleep))
            await asyncio.sleep(0)
            os.kill(server.pid, signal.SIGKILL)
            with pytest.raises(ForkServerError, match="was killed by signal 9"):
                await start
            assert await server.run(os.getppid) == server.pid

    run(main())


def test_cancelled_start_leaves_no_process() -> None:
    async def main() -> None:
        async with fork_server() as server:
            await server.ready()
            for turns in range(8):
                start = asyncio.create_task(server.fork(probes.sleep))
                for _ in range(turns):
                    await asyncio.sleep(0)
                start.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await start
            # Requests are answered in order: those before have been carried out.
            children = await server.run(probes.siblings)
            assert children == [], "killed, if they ever ran"

    run(main())


def test_callback_that_raises_is_no_concern_of_the_others() -> None:
    async def main() -> list[ExitReport]:
        seen: list[ExitReport] = []
        errors: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: errors.append(context["exception"])
        )
        async with fork_server() as server:
            one = await server.fork(probes.sleep)
            other = await server.fork(probes.sleep)
            one.on_exit(_raise)
            one.on_exit(seen.append)
            one.kill()
            other.kill()
            await one.wait()
            await other.wait()
        assert [type(error) for error in errors] == [ZeroDivisionError]
        return seen

    assert len(run(main())) == 1


def _raise(report: ExitReport) -> None:
    raise ZeroDivisionError
