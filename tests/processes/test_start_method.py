"""Whoever sets multiprocessing-method gets it; whoever does not gets warm processes."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from pathlib import Path

import dask
import pytest

from dask_fleet.processes import start_method
from tests.processes.support import outcome

_KEY = "distributed.worker.multiprocessing-method"
_SCRIPT = "from dask_fleet.processes import start_method; print(start_method())"


def test_default() -> None:
    assert start_method() == "warm"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_set_in_the_program(method: str) -> None:
    with dask.config.set({_KEY: method}):
        assert start_method() == method
    with dask.config.set({_KEY: "".join(method)}):
        assert start_method() == method
    assert start_method() == "warm"


def test_refreshed() -> None:
    dask.config.refresh()
    assert start_method() == "warm"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_set_in_a_file(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text(
        f"distributed: {{worker: {{multiprocessing-method: {method}}}}}"
    )
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    assert outcome(None, _SCRIPT).stdout == f"{method}\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_set_in_the_environment(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", method)
    assert outcome(None, _SCRIPT).stdout == f"{method}\n"


def test_not_set_in_a_fresh_interpreter() -> None:
    assert outcome(None, _SCRIPT).stdout == "warm\n"


def test_other_settings_in_a_file_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text("distributed: {worker: {daemon: false}}")
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    assert outcome(None, _SCRIPT).stdout == "warm\n"


def test_copied_configuration_is_taken_at_its_word() -> None:
    copied = pickle.loads(pickle.dumps(dask.config.config))
    with dask.config.set(copied):
        assert start_method() == "spawn"


def test_no_fork_server_on_this_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert start_method() == "spawn"


def test_frozen_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert start_method() == "spawn"
