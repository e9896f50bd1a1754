"""Start of a fork server: ``python -c`` calls `main` with what the manager told it."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import resource_tracker
from typing import NoReturn

from dask_fleet.processes.child import run_child
from dask_fleet.processes.server import Server
from dask_fleet.processes.wire import News, Report

#: What a started worker has imported beyond ``import distributed`` itself. Only a
#: saving: a worker imports for itself what is missing here.
WORKER_MODULES = (
    "distributed",
    "distributed.http.health",
    "distributed.http.prometheus",
    "distributed.http.statics",
    "distributed.http.worker",
    "distributed.http.worker.prometheus",
    "email.policy",
    "importlib_metadata._adapters",
    "importlib_metadata._text",
    "multiprocessing.synchronize",
    "tornado.platform.asyncio",
    "dask_fleet.processes.worker_main",
)


class Unfit(Exception):
    """The server must not serve; the text says why."""


def main(argument: str) -> NoReturn:
    """Import, serve, and end with the manager; in a child, run the child.

    Parameters
    ----------
    argument
        A JSON object: ``control``, the descriptor of the socket to the manager;
        ``manager``, its process id; ``tracker``, the descriptor of its resource
        tracker; ``preload``, names of further modules to import.
    """
    _ignore_interrupts()
    _open_standard_descriptors()
    settings = json.loads(argument)
    control = socket.socket(fileno=settings["control"])
    control.setblocking(True)
    control.set_inheritable(False)
    # A child shares the tracker of its manager, as a spawned one does: shared memory
    # must not end with the first process that closes it.
    os.set_inheritable(settings["tracker"], False)
    resource_tracker._resource_tracker._fd = settings["tracker"]  # type: ignore[attr-defined]
    try:
        import_all(settings["preload"])
    except Unfit as error:
        control.sendall(Report(News.UNFIT, text=str(error).encode()).encode())
        os._exit(1)
    # What was printed so far must not be printed by every child once more.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # Objects that the collector never visits are never written to, and pages that
    # are not written to stay shared.
    gc.freeze()
    server = Server(control, settings["manager"])
    fork = server.serve()
    if fork is None:
        server.end()
        os._exit(0)
    del server, control
    run_child(fork)


def _open_standard_descriptors() -> None:
    """Stand in for those that the manager has closed: others would take their place."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:  # noqa: PERF203  -- three at most
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
            os.set_inheritable(fd, True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the manager, here and in all children.

    A terminal sends it to all processes of the job at once; what follows from it is
    for the manager to say. Children stay in the manager's job otherwise: stopping it
    (Ctrl-Z), hanging up, and signals to the whole group reach them too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It was blocked by the manager, so that none came in before this. Others may have
    # been blocked there for reasons of its own.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def import_all(preload: Iterable[str]) -> None:
    """Import what a worker needs, and what the user wants besides.

    Raises
    ------
    Unfit
        A module of `preload` cannot be imported, or one left threads behind: a
        process with threads must not be forked.
    """
    for name in WORKER_MODULES:
        _import_if_there(name)
    for name in preload:
        _import(name)
    main = threading.main_thread()
    others = [thread.name for thread in threading.enumerate() if thread is not main]
    if others:
        raise Unfit(f"the imported modules started threads: {', '.join(others)}")


def _import_if_there(name: str) -> None:
    # Another version of a library may have it elsewhere.
    with suppress(ModuleNotFoundError):
        importlib.import_module(name)


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:
        raise Unfit(
            f"cannot import {name!r} (fleet.local.preload): "
            f"{type(error).__name__}: {error}"
        ) from error
