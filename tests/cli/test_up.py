"""``dask fleet up`` as a program, with a stand-in for the cluster."""

from __future__ import annotations

import re
import signal

import pytest

from tests.cli.terminal import FAKE, finished, started

UP = (*FAKE, "up")
WHERE = ["scheduler tcp://127.0.0.1:1\n", "dashboard http://127.0.0.1:2/status\n"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_stays_until_asked_to_end(signum: signal.Signals) -> None:
    with started(UP) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in WHERE] == WHERE
        assert process.stderr.readline().startswith("dask fleet: scheduler tcp://")
        assert process.stderr.readline().startswith("dask fleet: target 2")
        process.send_signal(signum)
        output, errors = process.communicate()
    assert (process.returncode, output) == (0, "")
    assert re.fullmatch(r"dask fleet: closed after .* 1 decision\n", errors)


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGQUIT])
def test_other_signals_end_it_too(signum: signal.Signals) -> None:
    with started([*UP, "-q"]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signum)
        assert process.wait() == 128 + signum


def test_nobody_reads_the_addresses() -> None:
    """It stays up, as it would with a reader."""
    with started(UP) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_cannot_start() -> None:
    result = finished(UP, FAKE_START="Address already in use: port 8786")
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == (
        "dask fleet: the cluster cannot be started: Address already in use: port 8786\n"
    )


def test_cluster_that_ends_by_itself() -> None:
    result = finished(UP, FAKE_OVER="the scheduler has gone")
    assert result.returncode == 125
    assert result.stderr.splitlines()[-1].startswith(
        "dask fleet: the cluster has ended: the scheduler has gone after "
    )
