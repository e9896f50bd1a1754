"""Runs one case in a fresh interpreter and tells what came of it.

A case is a function in a test file. It runs in an interpreter of its own, in an empty
folder of its own, and returns a dict that JSON can carry; `run` hands that back with
the exit code, what was printed, and the processes that outlived the interpreter. All
processes of a case carry its token in their environment, so none is missed, whoever
its parent is by now.

FLEET_CASES_CLASS     the class to try, `module:Class`; dask_fleet's LocalCluster
FLEET_TEST_SLOWNESS   how many times slower than wished a small limit may be; 3
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "FLEET_CASE_TOKEN"
LIMIT = 100.0
SLOWNESS = float(os.environ.get("FLEET_TEST_SLOWNESS", "3"))

#: What a case's interpreter runs: an import by name, so that spawned workers find the
#: task functions of the case by the same name.
_BOOT = """
import importlib, json, sys
module, function, arguments, answer = sys.argv[1:]
value = getattr(importlib.import_module(module), function)(**json.loads(arguments))
with open(answer, "w", encoding="utf-8") as file:
    json.dump(value, file)
"""


def bound(seconds: float) -> float:
    """Turn a limit into one that a busy machine can keep too."""
    return seconds * (SLOWNESS if seconds < 5 else max(1.0, SLOWNESS / 3))


@dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    #: What the case returned; empty if it did not get that far.
    value: dict[str, Any]
    code: int
    out: str
    err: str
    #: From the start of the interpreter to its end.
    seconds: float
    #: Command lines of processes that were there `bound(10)` after its end.
    left: tuple[str, ...]

    @property
    def err_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip()]

    def quiet(self) -> None:
        """Nothing on stderr, nothing left, exit code 0."""
        assert self.err == "", f"said on stderr:\n{self.err[-4000:]}"
        self.clean()

    def clean(self) -> None:
        """No traceback on stderr, nothing left, exit code 0."""
        assert self.code == 0, f"exit code {self.code}\n{self.err[-4000:]}"
        assert "Traceback" not in self.err, self.err[-4000:]
        assert self.left == (), f"left behind: {self.left}"


def run(
    case: Callable[..., dict[str, Any]], *, limit: float = LIMIT, **arguments: object
) -> Outcome:
    """Run a module's function in a fresh interpreter; it has to end well."""
    with tempfile.TemporaryDirectory(prefix="fleet-case-") as folder:
        answer = Path(folder, "answer.json")
        work = Path(folder, "work")
        work.mkdir()
        named = (case.__module__, case.__qualname__)
        command = ["-c", _BOOT, *named, json.dumps(arguments), str(answer)]
        outcome = _watch(command, work, limit)
        assert outcome.code == 0, (
            f"the case ended with exit code {outcome.code}\n{outcome.err[-4000:]}"
        )
        value = json.loads(answer.read_text("utf-8"))
    return Outcome(**{**vars(outcome), "value": value})


def run_script(text: str, *, limit: float = LIMIT) -> Outcome:
    """Run a script as a user would; how it ends is for the test to judge."""
    with tempfile.TemporaryDirectory(prefix="fleet-case-") as folder:
        script = Path(folder, "script.py")
        script.write_text(text, "utf-8")
        return _watch([str(script)], Path(folder), limit)


@contextlib.contextmanager
def started(text: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A script under way and its token; all that is left of it is ended."""
    with tempfile.TemporaryDirectory(prefix="fleet-case-") as folder:
        script = Path(folder, "script.py")
        script.write_text(text, "utf-8")
        token = uuid.uuid4().hex
        process = subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env=_environment(token),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield process, token
        finally:
            _end(descendants(token))
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def wait_gone(token: str, limit: float) -> tuple[str, ...]:
    """Command lines of the processes with this token still there after the limit."""
    deadline = time.monotonic() + limit
    while (found := descendants(token)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return tuple(_command(process) for process in found)


def descendants(token: str) -> list[psutil.Process]:
    """All live processes that carry the token, but for the resource tracker."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get(TOKEN) == token
                and "resource_tracker" not in _command(process)
            ):
                found.append(process)
    return found


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return f"process {process.pid}"


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _environment(token: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, TOKEN: token, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}


def _watch(command: list[str], folder: Path, limit: float) -> Outcome:
    """Run to the end or to the limit, with output in files that cannot fill up."""
    token = uuid.uuid4().hex
    out, err = folder / "stdout.txt", folder / "stderr.txt"
    start = time.monotonic()
    with out.open("w") as out_file, err.open("w") as err_file:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=_environment(token),
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
        )
        try:
            code = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            # The interpreter says where it hangs before it goes.
            _end([found for found in descendants(token) if found.pid != process.pid])
            process.send_signal(6)
            process.wait()
            raise AssertionError(
                f"not over after {limit:.0f} s\n{err.read_text('utf-8')[-6000:]}"
            ) from None
        finally:
            seconds = time.monotonic() - start
            left = wait_gone(token, bound(10)) if process.poll() is not None else ()
            _end(descendants(token))
            process.wait()
    return Outcome(
        value={},
        code=code,
        out=out.read_text("utf-8", "replace"),
        err=err.read_text("utf-8", "replace"),
        seconds=seconds,
        left=left,
    )
