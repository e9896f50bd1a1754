"""What the tests of processes share: a loop, a server, managers of their own."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from distributed import Nanny, Scheduler

from dask_fleet.processes import ForkServer, WarmNanny

T = TypeVar("T")

_ROOTS = [str(Path(__file__).parents[2])]

#: Seconds; nothing here takes nearly as long unless it hangs.
LIMIT = 60


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, on a loop of its own."""

    async def limited() -> T:
        return await asyncio.wait_for(main, LIMIT)

    return asyncio.run(limited())


@asynccontextmanager
async def fork_server(
    environ: dict[str, str] | None = None, preload: Iterable[str] = ()
) -> AsyncIterator[ForkServer]:
    server = ForkServer(environ, preload)
    try:
        yield server
    finally:
        await server.release()


@asynccontextmanager
async def scheduler() -> AsyncIterator[Scheduler]:
    async with Scheduler(host="127.0.0.1", dashboard_address=":0") as made:
        yield made


def nanny(scheduler: Scheduler, kind: type[Nanny] = WarmNanny, **options: Any) -> Any:
    """A nanny with one thread; not yet started."""
    quiet = {"silence_logs": logging.ERROR, "dashboard": False}
    own = {"host": "127.0.0.1", "nthreads": 1, **quiet}
    return kind(scheduler.address, **{**own, **options})


def causes(error: BaseException | None) -> list[BaseException]:
    """The chain of an exception, outermost first."""
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__
    return found


def all_gone(pids: Iterable[int], seconds: float = 10) -> bool:
    """Whether all these processes have ended, within a time."""
    end = time.monotonic() + seconds
    return all(_gone(pid, end) for pid in pids)


def _gone(pid: int, end: float) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0, end - time.monotonic()) * 1000))
    finally:
        os.close(descriptor)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Manager:
    """A manager in an interpreter of its own, which says things in JSON lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def says(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the manager has ended: {self.process.wait()}"
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def manager(
    folder: Path, text: str, *arguments: str, stderr: int | None = None
) -> Iterator[Manager]:
    """Run a script; kill its whole process group in the end."""
    process = subprocess.Popen(
        _command(folder, text, arguments),
        env=_environ(),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield Manager(process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def outcome(
    folder: Path | None, text: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end; as if at a prompt if there is no folder for it."""
    return subprocess.run(
        _command(folder, text, arguments),
        env=_environ(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def _command(folder: Path | None, text: str, arguments: Iterable[str]) -> list[str]:
    text = textwrap.dedent(text)
    if folder is None:
        return [sys.executable, "-c", text, *arguments]
    script = folder / "script.py"
    script.write_text(text)
    return [sys.executable, str(script), *arguments]


def _environ() -> dict[str, str]:
    """Let scripts import this package and the tests'."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*_ROOTS, *sys.path])}
