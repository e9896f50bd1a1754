"""A freshly forked child: from the copy of a server to a process of its own."""

from __future__ import annotations

import atexit
import gc
import logging
import logging.handlers
import os
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, NoReturn, cast

from dask_fleet.processes import lifeline
from dask_fleet.processes.channel import receive_frame, send_message
from dask_fleet.processes.failure import Failure
from dask_fleet.processes.launch import unpack


@dataclass(frozen=True)
class Fork:
    """What a child has from the server: descriptors, and the server's process id."""

    server: int
    #: The channel to the manager.
    channel: int
    #: Further descriptors that the manager sent along.
    passed: tuple[int, ...]
    #: What becomes stderr.
    stderr: int
    #: Reads as ended when the server ends.
    lifeline: int
    #: To be closed when the child has nothing of the server's any more.
    hello: int


def run_child(fork: Fork) -> NoReturn:
    """Become a process of its own, run what the manager sent, and end."""
    code = 1
    try:
        _detach(fork)
        code = _run(fork)
        # As at the end of a spawned process, but without taking down the
        # interpreter, which would copy every page that is still shared.
        atexit._run_exitfuncs()
        _flush()
    except BaseException:  # noqa: BLE001  -- the last frame of this process
        traceback.print_exc()
        _flush()
    finally:
        os._exit(code)


def _detach(fork: Fork) -> None:
    """Leave behind what belongs to the server."""
    lifeline.hold(fork.lifeline, fork.server)
    os.close(fork.hello)
    os.dup2(fork.stderr, 2)
    _close_log_files()
    own = (fork.channel, fork.lifeline, *fork.passed)
    for fd in own:
        os.set_inheritable(fd, False)
    tracker: int | None = resource_tracker._resource_tracker._fd  # type: ignore[attr-defined]
    _close_all_but(own if tracker is None else (*own, tracker))
    gc.enable()
    # `random` seeds itself anew after a fork; numpy does not.
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _close_all_but(kept: Iterable[int]) -> None:
    start = 3
    for fd in sorted(kept):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, 1 + max(map(int, os.listdir("/dev/fd"))))


def _close_log_files() -> None:
    """Detach log handlers from descriptors that the server opened.

    Handlers come from configuration files that imported modules applied. They open
    what they need again with the next record.
    """
    for reference in tuple(logging._handlerList):  # type: ignore[attr-defined]
        handler = reference()
        if isinstance(handler, logging.FileHandler) and handler.stream is not None:
            handler.stream.close()
            handler.stream = cast("Any", None)
        elif isinstance(handler, logging.handlers.SocketHandler):
            handler.close()


def _run(fork: Fork) -> int:
    """Run what the manager sends through the channel; return the exit code."""
    channel = socket.socket(fileno=fork.channel)
    try:
        frame = receive_frame(channel)
    except EOFError:  # the manager has changed its mind
        return 0
    try:
        process = unpack(frame, fork.passed)
    except BaseException as error:  # noqa: BLE001  -- also SystemExit in a script
        send_message(channel, Failure.of(error))
        return 1
    process.channel = channel
    # multiprocessing's own end of a spawned child: sets this process as the current
    # one, runs it, joins its threads, turns an exception into text and exit code.
    code: int = cast("Any", process)._bootstrap(parent_sentinel=fork.lifeline)
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # None, closed, or broken
            stream.flush()
