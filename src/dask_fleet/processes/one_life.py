"""Nannies that do not bring a dead worker back: whoever started them will know better.

distributed's nanny starts a worker again whenever its process has died, at once, under
the same name and without end. Here the cluster decides what follows from a death: it
remembers failures, pauses, and starts a new worker with a new name.
"""

from __future__ import annotations

import functools
from typing import Any

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

    ``restart`` (of a client, say) still starts the worker again: that was asked for.
    """

    #: How the worker's process ended, if nobody had asked for it.
    death: str | None = None
    #: Why no worker of this kind can ever start, if that is known.
    mistake: str | None = None
    _restarting = False

    async def restart(self, *args: Any, **kwargs: Any) -> Any:
        """Start the worker again, because somebody asks."""
        self._restarting = True
        try:
            return await super().restart(*args, **kwargs)
        finally:
            self._restarting = False

    def _on_worker_exit_sync(self, exitcode: int) -> None:
        if exitcode == MAIN_GUARD_EXIT:
            self.mistake = str(MainGuardError())
        super()._on_worker_exit_sync(exitcode)

    async def _on_worker_exit(self, exitcode: int) -> None:
        if self.status is Status.closing_gracefully:
            await self.close(reason="fleet-worker-closed")
            return
        if self.status is not Status.running or self._restarting:
            await super()._on_worker_exit(exitcode)
            return
        process: object = self.process
        report = process.last_exit if isinstance(process, WarmWorkerProcess) else None
        self.death = report.describe() if report else f"its process {how(exitcode)}"
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
        root = root_of(error)
        text = str(root).strip()
        if isinstance(root, (ProcessEnded, MainGuardError)) and text:
            return text
        return f"{type(root).__name__}: {text}" if text else type(root).__name__
    if isinstance(worker, OneLife) and worker.death is not None:
        return worker.death
    return ""


def is_mistake(worker: Worker | Nanny, error: BaseException) -> bool:
    """Whether no further start can do better than one that has raised this error."""
    known = isinstance(worker, OneLife) and worker.mistake is not None
    return known or isinstance(root_of(error), MainGuardError)


def root_of(error: BaseException) -> BaseException:
    """Return the error that others were raised from; not a mere traceback as text."""
    while error.__cause__ is not None and not isinstance(
        error.__cause__, RemoteTraceback
    ):
        error = error.__cause__
    return error
