"""The end of a child process, as an event of the running loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable


def when_ended(child: subprocess.Popen[bytes], call: Callable[[], None]) -> None:
    """Call `call` once on the running loop when `child` has ended.

    `child` has not been waited for then; its `wait` returns at once.

    Parameters
    ----------
    child
        A child of this process that has not been waited for.
    call
        Called without arguments, also if the child has ended already.
    """
    loop = asyncio.get_running_loop()
    pidfd = _pidfd(child.pid)
    if pidfd is None:
        waiting = loop.run_in_executor(None, child.wait)
        waiting.add_done_callback(lambda _: call())
        return

    def ended() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        call()

    loop.add_reader(pidfd, ended)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that reads as ready when the process has ended.

    None outside Linux, in a kernel or sandbox without it, and for a process that was
    waited for by someone else.
    """
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
