"""``dask fleet`` with real schedulers and workers."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.terminal import REAL, finished, on_terminal, python, started

pytestmark = pytest.mark.integration

OPTIONS = ("--dashboard-address", ":0")
RUN = (*REAL, "run", *OPTIONS)
UP = (*REAL, "up", *OPTIONS)

SUM = """
from distributed import Client
with Client() as client:
    print(sum(client.gather(client.map(abs, range(100)))), flush=True)
"""

PIDS = """
import os
from distributed import Client
client = Client()
print("workers", *sorted(client.run(os.getpid).values()), "end", flush=True)
"""


class Mark:
    """Finds the processes that a test has left, by a variable that all inherit.

    Without the standard library's resource tracker: it ends a moment after the last
    process that it serves.
    """

    def __init__(self) -> None:
        self.value = uuid.uuid4().hex

    def left(self) -> list[psutil.Process]:
        """Give the processes that are left."""
        return [process for process in psutil.process_iter() if self._has(process)]

    def _has(self, process: psutil.Process) -> bool:
        try:
            ours = process.environ().get("DASK_FLEET_TEST") == self.value
            return ours and "resource_tracker" not in " ".join(process.cmdline())
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            return False


@pytest.fixture
def mark() -> Iterator[Mark]:
    """Fail if anything is left that the test has started."""
    mark = Mark()
    yield mark
    left = mark.left()
    for process in left:
        process.kill()
    assert not left


def test_plain_client_finds_the_cluster(mark: Mark) -> None:
    result = finished(
        [*RUN, "--workers", "2", "--", *python(SUM)], DASK_FLEET_TEST=mark.value
    )
    assert (result.returncode, result.stdout) == (0, "4950\n")
    where, *states, summary = result.stderr.splitlines()
    assert where.startswith("dask fleet: scheduler tcp://127.0.0.1:")
    assert states[0].startswith("dask fleet: target 2, plan 2")
    assert re.fullmatch(
        r"dask fleet: exit code 0 after .* s; peak 2 workers, .* worker-seconds, "
        r"1 decision",
        summary,
    )
    assert not mark.left()


def test_as_a_command_of_dask(mark: Mark) -> None:
    dask = Path(sys.executable).with_name("dask")
    arguments = [str(dask), "fleet", "run", "-q", *OPTIONS, "--workers", "1", "false"]
    result = finished(arguments, DASK_FLEET_TEST=mark.value)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "")


def test_the_workers_asked_for_are_there_when_the_command_starts(mark: Mark) -> None:
    code = (
        "from distributed import Client\n"
        "client = Client()\n"
        "print(sorted(client.nthreads().values()))\n"
    )
    options = ("-q", "--workers", "3", "--threads", "2")
    result = finished([*RUN, *options, "--", *python(code)], DASK_FLEET_TEST=mark.value)
    assert (result.stdout, result.stderr) == ("[2, 2, 2]\n", "")


def test_adaptive_from_nothing(mark: Mark) -> None:
    result = finished(
        [*RUN, "--adapt", "0:2", "--", *python(SUM)], DASK_FLEET_TEST=mark.value
    )
    assert (result.returncode, result.stdout) == (0, "4950\n")
    assert "observed 0 (adaptive 0:2)" in result.stderr
    assert re.search(r"peak [12] workers?,", result.stderr)


def test_memory_and_name(mark: Mark) -> None:
    code = (
        "from distributed import Client\n"
        "(worker,) = Client().scheduler_info()['workers'].values()\n"
        "print(worker['memory_limit'])\n"
    )
    options = ("-q", "--workers", "1", "--memory", "512MiB", "--name", "mine")
    result = finished([*RUN, *options, "--", *python(code)], DASK_FLEET_TEST=mark.value)
    assert (result.stdout, result.stderr) == (f"{2**29}\n", "")


def test_workers_that_cannot_start(mark: Mark) -> None:
    """The reason in its own words, once; the command runs to its end."""
    result = finished(
        [*RUN, "-q", "--workers", "2", "--", "echo", "went on"],
        DASK_DISTRIBUTED__WORKER__PRELOAD='["no.such.module"]',
        DASK_FLEET_TEST=mark.value,
    )
    assert (result.returncode, result.stdout) == (0, "went on\n")
    (line,) = result.stderr.splitlines()
    assert line.startswith("dask fleet: workers cannot be started: ")
    assert "No module named 'no'" in line


def test_port_in_use(mark: Mark) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = finished([*UP, "--port", port], DASK_FLEET_TEST=mark.value)
    assert (result.returncode, result.stdout) == (125, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("dask fleet: the cluster cannot be started: ")
    assert port in line


def test_dashboard_port_in_use(mark: Mark) -> None:
    """A port that was asked for is an error, in one line that names it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f":{taken.getsockname()[1]}"
        arguments = [*REAL, "up", "--dashboard-address", address]
        result = finished(arguments, DASK_FLEET_TEST=mark.value)
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == (
        "dask fleet: the cluster cannot be started: "
        f"--dashboard-address: Port {address[1:]} is already in use.\n"
    )


def test_usual_dashboard_port_in_use(mark: Mark) -> None:
    """Another port and its link, without a word more."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            # Some other cluster has it otherwise, which is as good.
            stack.enter_context(socket.create_server(("127.0.0.1", 8787)))
        arguments = [*REAL, "run", "--workers", "0", "true"]
        result = finished(arguments, DASK_FLEET_TEST=mark.value)
    assert result.returncode == 0
    assert re.match(
        r"dask fleet: scheduler tcp://127.0.0.1:\d+, "
        r"dashboard http://127.0.0.1:(?!8787/)\d+/status\n",
        result.stderr,
    )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(signum: signal.Signals, mark: Mark) -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); {PIDS}input()"
    arguments = [*RUN, "-q", "--workers", "2", "--", *python(code)]
    with started(arguments, DASK_FLEET_TEST=mark.value) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("workers ")
        process.send_signal(signum)
        assert process.wait() == 128 + signum
        assert not mark.left()


def test_nothing_is_left_of_a_killed_up(mark: Mark) -> None:
    with started([*UP, "--workers", "2"], DASK_FLEET_TEST=mark.value) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("scheduler ")
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(mark.left(), timeout=20)
    assert not alive


def test_up_serves_others_until_interrupted(mark: Mark) -> None:
    with started([*UP, "--workers", "2", "-q"], DASK_FLEET_TEST=mark.value) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        result = finished(python(SUM), DASK_SCHEDULER_ADDRESS=address)
        assert (result.returncode, result.stdout) == (0, "4950\n")
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
        assert process.returncode == 0
        assert not mark.left()


def test_ctrl_c_leaves_the_workers_alone(mark: Mark) -> None:
    """1. Type Ctrl-C at a command that handles it. 2. The same workers are there."""
    code = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        f"{PIDS}"
        "signal.sigwait([signal.SIGINT])\n"
        "print()\n"
        "print('workers', *sorted(client.run(os.getpid).values()), 'end', flush=True)\n"
        "input()\n"
    )
    arguments = [*RUN, "--workers", "2", "--", *python(code)]
    with on_terminal(arguments, DASK_FLEET_TEST=mark.value) as terminal:
        terminal.until(lambda lines: len(pids(lines)) == 1)
        terminal.until(lambda lines: "observed 2" in lines[-3])
        terminal.type("\x03")
        terminal.until(lambda lines: len(pids(lines)) == 2)
        before, after = pids(terminal.text)
        assert before == after
        terminal.type("\n")
        assert terminal.until_ended() == 0
    assert not mark.left()


def pids(lines: list[str]) -> list[str]:
    """Give what the command has told of its workers, wherever the keys were echoed."""
    bare = [line.replace("^C", "") for line in lines]
    return [line for line in bare if re.fullmatch(r"workers [\d ]+ end", line)]
