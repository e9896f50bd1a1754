"""``dask fleet run`` as a program, with a stand-in for the cluster."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import FAKE, finished, python, started

RUN = (*FAKE, "run")

#: Says when it is ready, then which signals it gets, and ends after the second.
TELL_SIGNALS = """
import signal
expected = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
signal.pthread_sigmask(signal.SIG_BLOCK, expected)
print("ready", flush=True)
for _ in range(2):
    print("heard", signal.Signals(signal.sigwait(expected)).name, flush=True)
"""

WAIT = "import time; print('ready', flush=True); time.sleep(600)"


def test_everything_that_is_seen_without_a_terminal() -> None:
    result = finished([*RUN, "--", *python("print('hello')")])
    assert (result.returncode, result.stdout) == (0, "hello\n")
    where, state, summary = result.stderr.splitlines()
    assert where == (
        "dask fleet: scheduler tcp://127.0.0.1:1, dashboard http://127.0.0.1:2/status"
    )
    assert state == (
        "dask fleet: target 2, plan 2, requested 2, observed 2 (manual); "
        "scale(2) was called: 0 -> 2 workers"
    )
    assert re.fullmatch(
        r"dask fleet: exit code 0 after \d+\.\d s; "
        r"peak 2 workers, \d+\.\d worker-seconds, 1 decision",
        summary,
    )


@pytest.mark.parametrize("code", [0, 1, 2, 127, 255])
def test_exit_code_is_the_command_s(code: int) -> None:
    result = finished([*RUN, "-q", "--", *python(f"raise SystemExit({code})")])
    assert (result.returncode, result.stdout, result.stderr) == (code, "", "")


def test_shell_commands_work() -> None:
    assert finished([*RUN, "-q", "--", "false"]).returncode == 1
    assert finished([*RUN, "-q", "true"]).returncode == 0


@pytest.mark.parametrize(
    "signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]
)
def test_command_that_a_signal_ends(signum: signal.Signals) -> None:
    code = f"import os; os.kill(os.getpid(), {int(signum)})"
    code = f"import signal; signal.signal({int(signal.SIGINT)}, 0); {code}"
    result = finished([*RUN, "--", *python(code)])
    assert result.returncode == 128 + signum
    assert f"ended by {signum.name} after" in result.stderr


def test_scheduler_address_in_the_environment() -> None:
    code = "import dask; print(dask.config.get('scheduler-address'))"
    result = finished([*RUN, "-q", "--", *python(code)])
    assert result.stdout == "tcp://127.0.0.1:1\n"


def test_standard_input_is_the_command_s() -> None:
    result = finished([*RUN, "-q", "--", "cat"], given="one\ntwo\n")
    assert result.stdout == "one\ntwo\n"


def test_not_executable(tmp_path: Path) -> None:
    result = finished([*RUN, "--", str(tmp_path)])
    assert (result.returncode, result.stdout) == (126, "")
    assert result.stderr == f"dask fleet: {tmp_path}: not an executable file\n"


def test_refused_by_the_system(tmp_path: Path) -> None:
    path = tmp_path / "job"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    result = finished([*RUN, "-q", "--", str(path)])
    assert result.returncode == 126
    assert result.stderr == f"dask fleet: {path}: its interpreter was not found\n"


def test_cluster_that_cannot_start() -> None:
    result = finished([*RUN, "--", "echo", "never"], FAKE_START="port 1 is in use")
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == (
        "dask fleet: the cluster cannot be started: port 1 is in use\n"
    )


@pytest.mark.parametrize("options", [(), ("-q",)])
def test_workers_that_cannot_start(options: tuple[str, ...]) -> None:
    """The reason is told once, in its own words, and the command goes on."""
    code = "import sys; sys.stdin.readline(); print('done')"
    with started(
        [*RUN, *options, "--", *python(code)], FAKE_WORKERS="quota: 0 of 2 allowed"
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        told = "dask fleet: workers cannot be started: quota: 0 of 2 allowed\n"
        for line in process.stderr:
            if line == told:
                break
        process.stdin.write("\n")
        output, rest = process.communicate()
    assert (process.returncode, output) == (0, "done\n")
    assert "cannot be started" not in rest


@pytest.mark.parametrize(
    "signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
)
def test_signal_reaches_the_command_once(signum: signal.Signals) -> None:
    """A second copy would come before the next signal."""
    after = signal.SIGTERM if signum != signal.SIGTERM else signal.SIGHUP
    with started([*RUN, "-q", "--", *python(TELL_SIGNALS)]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signum)
        assert process.stdout.readline() == f"heard {signum.name}\n"
        process.send_signal(after)
        assert process.stdout.readline() == f"heard {after.name}\n"
        assert process.communicate() == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize(
    "signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
)
def test_signal_ends_the_command_and_us(signum: signal.Signals) -> None:
    code = f"import signal; signal.signal({int(signal.SIGINT)}, 0); {WAIT}"
    with started([*RUN, "-q", "--", *python(code)]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signum)
        assert process.wait() == 128 + signum


def test_signal_reaches_the_whole_group_of_the_command() -> None:
    """A shell that waits for a child: both end, or standard output stayed open."""
    script = f'"{sys.executable}" -c "{WAIT}"; exit 3'
    with started([*RUN, "-q", "--", "sh", "-c", script]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate() == ("", "")
        assert process.returncode == 128 + signal.SIGTERM


def test_second_interrupt_ends_hard() -> None:
    """The command ignores interrupts, and so does a child that it started."""
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "os.fork()\n"
        "os.write(1, b'ready\\n')\n"
        "time.sleep(600)\n"
    )
    with started([*RUN, "--", *python(code)]) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        interrupt_until_ended(process)
        _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGKILL
    assert "ended by SIGKILL" in errors


def test_ignored_signals_stay_ignored() -> None:
    """As under ``nohup``, for the command too."""
    code = "import signal; print(signal.getsignal(signal.SIGHUP).name)"
    command = [*RUN, "-q", "--", *python(code)]
    nohup = f"trap '' HUP; exec {shlex.join(command)}"
    assert finished(["sh", "-c", nohup]).stdout == "SIG_IGN\n"


@pytest.mark.parametrize(
    "signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
)
def test_signal_while_the_cluster_starts(signum: signal.Signals) -> None:
    with started([*RUN, "--", "echo", "never"], FAKE_SLOW="1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signum)
        output, errors = process.communicate()
    assert (process.returncode, output, errors) == (128 + signum, "", "")


def test_second_interrupt_while_closing_ends_hard() -> None:
    """A first one does not: it may be the one that has ended the command."""
    with started([*RUN, "-q", "--", "true"], FAKE_STUCK="1") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "closing\n"
        process.send_signal(signal.SIGTERM)
        interrupt_until_ended(process)
        assert process.communicate() == ("", "")
    assert process.returncode == 128 + signal.SIGINT


def interrupt_until_ended(process: subprocess.Popen[str]) -> None:
    """Interrupt again and again: two too close to each other count as one."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.3)


def test_nobody_reads_our_lines() -> None:
    """Broken standard error: the command goes on, its exit code is ours."""
    code = "import sys; sys.stdin.readline(); raise SystemExit(5)"
    with started([*RUN, "--", *python(code)]) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stderr.close()
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait() == 5


def test_nobody_reads_the_output() -> None:
    """Broken standard output: as in a shell, that is between the command and it."""
    shell = f"{shlex.join([*RUN, '--', 'yes'])}; echo $? >&2"
    result = finished(["sh", "-c", f"{{ {shell}; }} | head -n 1"])
    assert result.stdout == "y\n"
    assert "ended by SIGPIPE" in result.stderr
    assert result.stderr.endswith("\n141\n")
