"""What the tests let children do."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import psutil


def chance() -> tuple[float, str, int]:
    return random.random(), str(uuid.uuid4()), hash("dask")


def surroundings() -> dict[str, Any]:
    return {
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "argv": sys.argv,
        "path": sys.path,
        "stdin": os.readlink("/proc/self/fd/0"),
    }


def belongings() -> dict[str, Any]:
    """Descriptors, threads, handlers: what a child could have inherited."""
    return {
        "descriptors": {
            int(fd): os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{fd}")
        },
        "inheritable": [
            fd for fd in range(3, 100) if _is_open(fd) and os.get_inheritable(fd)
        ],
        "threads": [thread.name for thread in threading.enumerate()],
        "tasks": len(os.listdir("/proc/self/task")),
        "handlers": {
            number.name: str(signal.getsignal(number))
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)
        },
        "wakeup": signal.set_wakeup_fd(-1),
        "loop": asyncio._get_running_loop(),
        "log": [
            str(handler) for handler in logging.getLogger("of the manager").handlers
        ],
        "group": (os.getpgrp(), os.getsid(0)),
    }


def _is_open(fd: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def identity() -> dict[str, Any]:
    this = multiprocessing.current_process()
    parent = multiprocessing.parent_process()
    assert parent is not None
    return {
        "name": this.name,
        "daemon": this.daemon,
        "authkey": bytes(this.authkey),
        "method": multiprocessing.get_start_method(),
        "parent": parent.pid,
        "parent_is_alive": parent.is_alive(),
    }


def say_and_exit(channel: socket.socket, text: str, code: int) -> None:
    print(text, file=sys.stderr)
    sys.exit(code)


def die(channel: socket.socket, signum: int) -> None:
    os.kill(os.getpid(), signum)


def raise_error(channel: socket.socket) -> None:
    raise LookupError("nothing of the kind")


def sleep(channel: socket.socket) -> None:
    """Run until the manager closes the channel."""
    channel.recv(1)


def sleep_in_c(channel: socket.socket) -> None:
    """Hold the interpreter's lock in foreign code for ever."""
    import ctypes

    ctypes.PyDLL(None).pause()


def leave_a_child(channel: socket.socket) -> None:
    """End, while another process still has this one's stderr."""
    print("the parent", file=sys.stderr, flush=True)
    child = subprocess.Popen(["sleep", "60"])
    channel.sendall(child.pid.to_bytes(4, "big"))
    channel.recv(1)


def write_much(channel: socket.socket, lines: int) -> None:
    for number in range(lines):
        print(f"line {number} " + 100 * "x", file=sys.stderr)


def start_method_child(queue: Any) -> None:
    queue.put(os.getpid())


def pids_of_grandchildren() -> tuple[int, int]:
    """Start processes by multiprocessing from within a child, two ways."""
    context = multiprocessing.get_context("spawn")
    queue: Any = context.SimpleQueue()
    process = context.Process(target=start_method_child, args=(queue,))
    process.start()
    process.join()
    with context.Pool(1) as pool:
        other = pool.apply(os.getpid)
    return queue.get(), other


def append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text)


def siblings() -> list[int]:
    """Other children of this one's server that do not end within a time."""
    server = psutil.Process(os.getppid())
    others = [
        child
        for child in server.children()
        if child.pid != os.getpid() and child.status() != psutil.STATUS_ZOMBIE
    ]
    _, alive = psutil.wait_procs(others, timeout=10)
    return [process.pid for process in alive]
