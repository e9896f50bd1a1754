"""Nannies that do not bring a dead worker back: whoever started them will know better.

distributed's nanny starts a worker again whenever its process has died, at once, under
the same name and without end. Here the cluster decides what follows from a death: it
remembers failures, pauses, and starts a new worker with a new name.
"""

from __future__ import annotations

import functools

from dask.utils import format_bytes
from distributed import Nanny, Worker
from distributed.core import Status

from dask_fleet.processes.errors import (
    MAIN_GUARD_EXIT,
    MainGuardError,
    ProcessEnded,
    RemoteTraceback,
)
from dask_fleet.processes.report import how
from dask_fleet.processes.worker_process import WarmWorkerProcess


class OneLife(Nanny):
    """A nanny that closes when its worker's process has died unasked.

    ``restart`` (of a client, say) still starts the worker again: that was asked for,
    and the new process has the name of the old one.
    """

    #: How the worker's process ended, if nobody had asked for it.
    death: str | None = None
    #: Why no worker of this kind can ever start, if that is known.
    mistake: str | None = None
    #: Somebody is ending the worker's process at this moment.
    _killing = False
    #: The process that ended last was ended by somebody.
    _was_killed = False

    async def kill(self, timeout: float = 5, reason: str = "nanny-kill") -> None:
        """End the worker's process because somebody asks.

        It is started again unless the nanny closes: a client's ``restart`` relies on
        that.
        """
        self._killing = True
        try:
            await super().kill(timeout=timeout, reason=reason)
        finally:
            self._killing = False

    async def instantiate(self) -> Status:
        """Start the worker's process; also remember why that failed."""
        try:
            return await super().instantiate()
        except Exception as error:
            self.death = f"it could not be started again: {_described(error)}"
            raise

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        self._was_killed = self._killing
        if exitcode == MAIN_GUARD_EXIT:
            self.mistake = str(MainGuardError())
        super()._on_worker_exit_sync(exitcode)

    async def _on_worker_exit(self, exitcode: int) -> None:
        if self.status is Status.closing_gracefully:
            await self.close(reason="fleet-worker-closed")
            return
        if self.status is not Status.running or self._was_killed:
            await super()._on_worker_exit(exitcode)
            return
        process: object = self.process
        report = process.last_exit if isinstance(process, WarmWorkerProcess) else None
        self.death = report.describe() if report else f"its process {how(exitcode)}"
        if report and report.pid == self.memory_manager._last_terminated_pid:
            self.death = f"{_out_of_memory(self)}; {self.death}"
        await self._unregister()
        await self.close(reason="fleet-worker-died")


@functools.cache
def has_one_life(nanny_class: type[Nanny]) -> type[Nanny]:
    """Return a nanny class like this one whose workers are not brought back."""
    return type(nanny_class.__name__, (OneLife, nanny_class), {})


def last_words(worker: Worker | Nanny, error: BaseException | None) -> str:
    """Say how a worker that was not asked to ended; empty if it closed itself.

    Parameters
    ----------
    worker
        The worker or its nanny.
    error
        What its start raised, if it did not get further.
    """
    if isinstance(worker, OneLife) and worker.mistake is not None:
        return worker.mistake
    if error is not None:
        return _described(error)
    if isinstance(worker, OneLife) and worker.death is not None:
        return worker.death
    return ""


def is_mistake(worker: Worker | Nanny, error: BaseException) -> bool:
    """Whether no further start can do better than one that has raised this error."""
    known = isinstance(worker, OneLife) and worker.mistake is not None
    # A wrong argument, most of the time: it stays wrong.
    return known or isinstance(root_of(error), (MainGuardError, TypeError))


def _described(error: BaseException) -> str:
    root = root_of(error)
    text = str(root).strip()
    if isinstance(root, (ProcessEnded, MainGuardError)) and text:
        return text
    return f"{type(root).__name__}: {text}" if text else type(root).__name__


def _out_of_memory(nanny: Nanny) -> str:
    manager = nanny.memory_manager
    limit = format_bytes(manager.memory_limit or 0)
    share = manager.memory_terminate_fraction
    return f"out of memory: it used more than {share:.0%} of its limit of {limit}"


def root_of(error: BaseException) -> BaseException:
    """Return the error that others were raised from; not a mere traceback as text."""
    while error.__cause__ is not None and not isinstance(
        error.__cause__, RemoteTraceback
    ):
        error = error.__cause__
    return error
