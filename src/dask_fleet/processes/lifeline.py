"""A child does not outlive its fork server."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def hold(fd: int, parent: int) -> None:
    """Make this process end as soon as its parent does.

    On Linux the kernel kills it, whatever it is doing: also if it is stopped, or
    stuck in foreign code. Elsewhere a thread waits for the end of the parent and
    ends the process, which takes a process that still runs Python.

    Parameters
    ----------
    fd
        Reading end of a pipe whose writing end only the parent holds.
    parent
        Process id of the parent.
    """
    if not _kernel_will_end_us():
        threading.Thread(
            target=_watch, args=(fd,), name="fork server lifeline", daemon=True
        ).start()
    # The parent may have ended before the kernel was told.
    elif os.getppid() != parent:
        os._exit(1)


def _kernel_will_end_us() -> bool:
    if sys.platform != "linux":
        return False
    failed: int = ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return not failed  # a sandbox may forbid it


def _watch(fd: int) -> None:
    os.read(fd, 1)
    os._exit(1)
