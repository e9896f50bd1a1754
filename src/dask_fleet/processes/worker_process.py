"""The worker process of a nanny, from a warm fork server."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import dask.config
from distributed import Worker, default_client
from distributed.core import Status
from distributed.diskutils import DIR_LOCK_EXT

from dask_fleet.processes.errors import ProcessEnded
from dask_fleet.processes.failure import Failure
from dask_fleet.processes.fork_server import ForkServer
from dask_fleet.processes.forked import ForkedProcess
from dask_fleet.processes.report import ExitReport
from dask_fleet.processes.worker_main import (
    StopWorker,
    WorkerMade,
    WorkerStarted,
    run_worker,
)

logger = logging.getLogger(__name__)

#: Seconds for a process to end that no longer speaks to us.
_LINGER = 5


class WarmWorkerProcess:
    """What a `distributed.Nanny` holds as its ``process``, on top of a fork server.

    Starting, watching and ending go by messages and events: there is no thread, no
    queue and nothing polled in this process. After the worker's end, `start` starts
    the next one.

    Parameters
    ----------
    server
        Where the processes come from.
    worker
        The class of the worker, or what makes one.
    worker_kwargs
        Its keyword arguments.
    env
        Environment variables for the worker, over those of this process.
    config
        Dask's configuration for the worker.
    silence_logs
        Level for the nanny's logger in the worker; none is changed if it is false.
    on_exit
        Called with the exit code when a worker has ended.

    Attributes
    ----------
    status
        Where this object stands: init, starting, running, stopping, stopped, failed.
    process
        The process of the present worker; None if there is none.
    worker_address
        Address of the present worker or, until the next one starts, of the last one;
        a nanny takes it off the scheduler's list after the end.
    worker_dir
        Local directory of the present worker; None if there is none.
    running, stopped
        Set when a start is over, well or not; and when a worker has ended.
    last_exit
        How the last worker ended; None if none has yet.
    exit_callbacks
        Each is called with the `ExitReport` when a worker has ended.
    """

    def __init__(
        self,
        server: ForkServer,
        *,
        worker: Callable[..., Worker],
        worker_kwargs: Mapping[str, Any],
        env: Mapping[str, str],
        config: Mapping[str, Any],
        silence_logs: int | str | None = None,
        on_exit: Callable[[int | None], None] | None = None,
    ) -> None:
        self.status = Status.init
        self.process: ForkedProcess | None = None
        self.worker_address: str | None = None
        self.worker_dir: str | None = None
        self.running = asyncio.Event()
        self.stopped = asyncio.Event()
        self.last_exit: ExitReport | None = None
        self.exit_callbacks: list[Callable[[ExitReport], None]] = []
        self.on_exit = on_exit
        self._server = server
        #: Why the present start is not to go on; None as long as it is.
        self._aborted: str | None = None
        self._factory = functools.partial(worker, **worker_kwargs)
        self._env = {"__DASK_PARENT_PID": str(os.getpid()), **env}
        self._config = _for_workers(config)
        self._silence_logs = silence_logs

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status.name} {self.process}>"

    @property
    def pid(self) -> int | None:
        """Process id of the present worker; None if there is none."""
        return self.process.pid if self.process is not None else None

    def is_alive(self) -> bool:
        """Whether there is a worker process."""
        return self.process is not None and self.process.is_alive()

    async def start(self) -> Status:
        """Start a worker unless there is one, and wait until it is registered.

        Returns
        -------
        The status: running, if nothing came between.

        Raises
        ------
        Exception
            What was raised in the worker while it started.
        ProcessEnded
            The process ended while it started, without a word.
        OSError, ForkServerError, MainGuardError
            As `ForkServer.fork`.
        """
        if self.status is Status.running:
            return self.status
        if self.status is Status.starting:
            await self.running.wait()
            return self.status
        if self.process is not None:  # the last one has been killed and lingers
            await self.process.wait()
        self.status = Status.starting
        self.worker_address = None
        self.running.clear()
        self.stopped.clear()
        try:
            await self._start()
        except BaseException:
            if self.process is not None:
                self.process.kill()
                if self.status is Status.starting:
                    self.status = Status.failed
            else:  # there never was one, or its end has been noticed
                self._set_stopped()
            raise
        finally:
            self.running.set()
        return self.status

    async def kill(
        self,
        timeout: float = 5,
        executor_wait: bool = False,
        reason: str = "worker-process-kill",
    ) -> None:
        """End the worker, and return when its process has ended.

        A worker that runs is asked to close. One that does not in time, or that is
        only just starting and so has nothing to lose, is killed.

        Parameters
        ----------
        timeout
            Seconds: four fifths of it for the worker to close; then, after it was
            killed, once more all of it for the process to be gone.
        executor_wait
            Whether the worker waits for the threads of running tasks.
        reason
            For the log.

        Raises
        ------
        asyncio.TimeoutError
            Not even killing ended the process in time.
        """
        if self.status in (Status.init, Status.stopped):
            return
        if self.status is Status.stopping:
            await self.stopped.wait()
            return
        running = self.status is Status.running
        if self.status is Status.starting:
            self._aborted = reason
        self.status = Status.stopping
        if running and self.process is not None:
            stop = StopWorker(timeout * 0.8, executor_wait, reason)
            self.process.channel.send(stop)
            if await self._stops_within(stop.timeout):
                return
            logger.info(
                "Worker process %s has not closed in %.1f s; it is killed",
                self.pid,
                stop.timeout,
            )
        if self.process is not None:
            self.process.kill()
        if not await self._stops_within(timeout):
            which = "that is being made" if self.pid is None else str(self.pid)
            raise asyncio.TimeoutError(
                f"worker process {which} is not gone {timeout} s after it was killed"
            )

    async def _stops_within(self, timeout: float) -> bool:
        try:
            await asyncio.wait_for(self.stopped.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    async def _start(self) -> None:
        process = await self._server.fork(
            run_worker,
            (self._factory, self._config, self._silence_logs),
            name="Dask Worker process (from Nanny)",
            daemon=dask.config.get("distributed.worker.daemon", default=True),
            environ=self._env,
        )
        self.process = process
        process.on_exit(self._on_process_exit)
        if self.status is Status.stopping:  # killed while the process was made
            process.kill()
        while self.status is not Status.running:
            try:
                message = await process.channel.receive()
            except EOFError:
                raise ProcessEnded(await self._report_of(process)) from None
            if isinstance(message, Failure):
                await self._report_of(process)
                raise message.exception()
            if isinstance(message, WorkerMade):
                self.worker_dir = message.directory
            elif self.status is Status.starting:
                assert isinstance(message, WorkerStarted)
                self.worker_address = message.address
                self.status = Status.running

    async def _report_of(self, process: ForkedProcess) -> ExitReport:
        """Return how a process ended that has said its last word."""
        # It ends at this moment, unless something in it holds it up.
        linger = asyncio.get_running_loop().call_later(_LINGER, process.kill)
        try:
            report = await process.wait()
        finally:
            linger.cancel()
        return self.last_exit or report

    def _on_process_exit(self, report: ExitReport) -> None:
        """Clear up after a worker that has ended, in whatever way."""
        if self._aborted is not None:
            reason = f"it was stopped while it started ({self._aborted})"
            report = dataclasses.replace(report, reason=reason)
        if report.exitcode != 0:
            logger.info("Worker %s", report.describe())
        if self.worker_dir is not None:
            _remove(self.worker_dir)
        self.last_exit = report
        self._set_stopped()
        loop = asyncio.get_running_loop()
        for callback in self.exit_callbacks:
            loop.call_soon(callback, report)
        if self.on_exit is not None:
            self.on_exit(report.exitcode)

    def _set_stopped(self) -> None:
        self.status = Status.stopped
        self.process = None
        self.worker_dir = None
        self._aborted = None
        self.stopped.set()


def _for_workers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration without what a client has set for itself."""
    copied = dict(config)
    try:
        default_client()
    except ValueError:  # there is none
        return copied
    copied.pop("scheduler", None)
    copied.pop("shuffle", None)
    return copied


def _remove(directory: str) -> None:
    """Remove a worker's directory and its lock; a worker that closed has done so."""
    if os.path.exists(directory):
        shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(directory + DIR_LOCK_EXT)
