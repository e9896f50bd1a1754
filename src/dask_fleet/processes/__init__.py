"""Worker processes from a warm fork server.

A worker process spends most of its start importing. Here one process, the fork
server, imports once; workers are forked from it. See `ForkServer` for processes,
`warm` for nannies, `start_method` for whether to use them, `server` for how it works.

This floor knows nothing of clusters and imports nothing else of dask-fleet.
"""

from __future__ import annotations

from dask_fleet.processes.environ import pre_spawn_environ
from dask_fleet.processes.errors import (
    ForkServerError,
    MainGuardError,
    ProcessEnded,
    RemoteTraceback,
    check_main_guard,
)
from dask_fleet.processes.fork_server import ForkServer
from dask_fleet.processes.forked import ForkedProcess
from dask_fleet.processes.method import start_method
from dask_fleet.processes.report import ExitReport
from dask_fleet.processes.warm import WarmNanny, warm
from dask_fleet.processes.worker_process import WarmWorkerProcess

__all__ = [
    "ExitReport",
    "ForkServer",
    "ForkServerError",
    "ForkedProcess",
    "MainGuardError",
    "ProcessEnded",
    "RemoteTraceback",
    "WarmNanny",
    "WarmWorkerProcess",
    "check_main_guard",
    "pre_spawn_environ",
    "start_method",
    "warm",
]
