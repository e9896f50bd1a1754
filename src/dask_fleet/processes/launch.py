"""What a child is told to be: packed by the manager, opened by the child."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import context, popen_forkserver, spawn
from multiprocessing import process as mp_process
from multiprocessing.forkserver import _forkserver
from socket import socket
from typing import Any, cast

import dask.config

from dask_fleet.processes.errors import check_main_guard
from dask_fleet.processes.pickling import dumps_for_child


class WarmProcess(context.SpawnProcess):
    """What ``multiprocessing.current_process()`` is in a warm child.

    It is a `multiprocessing` process of the kind "spawn": the same name, daemon flag,
    authentication key and start method are seen in the child as in a spawned one. Its
    target gets the channel to the manager as its first argument.
    """

    #: Set in the child.
    channel: socket

    def run(self) -> None:
        """Call the target; in the child only."""
        self._target(self.channel, *self._args)  # type: ignore[attr-defined]


class _Passing:
    """Collects the descriptors of objects that are being pickled for a child.

    This is what `multiprocessing` asks of the process under construction when a
    queue, a pipe or a socket is among the arguments.
    """

    DupFd = popen_forkserver._DupFd

    def __init__(self) -> None:
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        self.fds.append(fd)
        return len(self.fds) - 1


def pack(
    target: Callable[..., object],
    args: Sequence[Any],
    *,
    name: str,
    daemon: bool,
    environ: Mapping[str, str],
) -> tuple[bytes, list[int]]:
    """Return the frame that tells a child what to be, and descriptors to go with it.

    Parameters
    ----------
    target, args
        Called in the child as ``target(channel, *args)``.
    name, daemon
        Of ``multiprocessing.current_process()`` in the child.
    environ
        All of the child's environment variables.

    Raises
    ------
    MainGuardError
        This process is itself a child that is only just importing the main script.
    """
    check_main_guard()
    process = WarmProcess(target=target, name=name, args=tuple(args), daemon=daemon)
    preparation = spawn.get_preparation_data(name)
    passing = _Passing()
    context.set_spawning_popen(cast("Any", passing))
    try:
        pickled = dumps_for_child(
            process, main_is_importable=_imports_main(preparation)
        )
        frame = pickle.dumps((dict(environ), preparation, pickled))
    finally:
        context.set_spawning_popen(None)
    return frame, passing.fds


def unpack(frame: bytes, passed: Sequence[int]) -> WarmProcess:
    """Make this child what the frame says, and return the process to run.

    Sets environment, module search path, arguments and working directory, and
    imports the main script as ``__mp_main__``, as a spawned process does.
    """
    environ, preparation, pickled = pickle.loads(frame)
    _apply_environ(environ)
    _forkserver._inherited_fds = list(passed)  # type: ignore[attr-defined]
    this: Any = mp_process.current_process()
    this._inheriting = True
    try:
        spawn.prepare(preparation)
        return cast("WarmProcess", pickle.loads(pickled))
    finally:
        del this._inheriting


def _imports_main(preparation: Mapping[str, Any]) -> bool:
    return not preparation.keys().isdisjoint(
        ("init_main_from_name", "init_main_from_path")
    )


def _apply_environ(environ: Mapping[str, str]) -> None:
    old = dict(os.environ)
    if environ == old:
        return
    os.environ.clear()
    os.environ.update(environ)
    if old.get("TZ") != environ.get("TZ"):
        time.tzset()
    if _dask_part(old) != _dask_part(environ):
        dask.config.refresh()


def _dask_part(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key.startswith("DASK_")}
