"""Nannies whose worker processes come from a warm fork server."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, cast

from distributed import Nanny
from distributed.core import Status

from dask_fleet.processes.fork_server import ForkServer
from dask_fleet.processes.report import ExitReport
from dask_fleet.processes.worker_process import WarmWorkerProcess


class WarmNanny(Nanny):
    """A nanny that takes its worker processes from a fork server.

    Parameters
    ----------
    fork_server
        Where its processes come from. It stays the caller's to release. Without one,
        the nanny starts its own when it starts its first worker, and releases it
        when it is closed.
    on_worker_exit
        Called with the `ExitReport` at the moment when a worker process has ended,
        in whatever way.
    args, kwargs
        As for `distributed.Nanny`, or for the class that this was mixed into.
    """

    def __init__(
        self,
        *args: Any,
        fork_server: ForkServer | None = None,
        on_worker_exit: Callable[[ExitReport], None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._on_worker_report = on_worker_exit
        self._fork_server = fork_server
        self._own_fork_server: ForkServer | None = None

    async def instantiate(self) -> Status:
        """Start the worker process, in a warm child."""
        if self.process is None:
            # It has all of the surface of a WorkerProcess that a nanny uses.
            self.process = cast("Any", self._worker_process())
        return await super().instantiate()

    async def close(  # type: ignore[override]  # as in Nanny itself
        self, timeout: float = 5, reason: str = "nanny-close"
    ) -> Literal["OK"]:
        """Close the worker, its process, and this nanny."""
        try:
            return await super().close(timeout=timeout, reason=reason)
        finally:
            if self._own_fork_server is not None:
                await self._own_fork_server.release()

    def _worker_process(self) -> WarmWorkerProcess:
        server = self._fork_server
        if server is None:
            server = self._own_fork_server = ForkServer(self.pre_spawn_env)
        process = WarmWorkerProcess(
            server,
            worker=self.Worker,
            worker_kwargs=_worker_kwargs(self),
            env=self.env,
            config=self.config,
            silence_logs=self.silence_logs,
            on_exit=self._on_worker_exit_sync,
        )
        if self._on_worker_report is not None:
            process.exit_callbacks.append(self._on_worker_report)
        return process


#: What a worker has from its nanny under the same name.
_SHARED = (
    "contact_address",
    "death_timeout",
    "name",
    "nthreads",
    "preload",
    "preload_argv",
    "resources",
    "security",
    "services",
    "silence_logs",
    "validate",
)


def _worker_kwargs(nanny: Nanny) -> dict[str, Any]:
    return {
        **{name: getattr(nanny, name) for name in _SHARED},
        "scheduler_ip": nanny.scheduler_addr,
        "nanny": nanny.address,
        "local_directory": nanny._original_local_dir,
        "memory_limit": nanny.memory_manager.memory_limit,
        **nanny.worker_kwargs,
    }


@functools.cache
def warm(nanny_class: type[Nanny]) -> type[Nanny]:
    """Return a nanny class like this one that takes its workers from a fork server.

    Parameters
    ----------
    nanny_class
        `distributed.Nanny` or a class derived from it.

    Returns
    -------
    A subclass, the same for every call; it takes one more keyword, ``fork_server``
    (see `WarmNanny`).

    Examples
    --------
    >>> class MyNanny(Nanny):
    ...     pass
    >>> issubclass(warm(MyNanny), MyNanny), warm(MyNanny) is warm(MyNanny)
    (True, True)
    """
    if issubclass(nanny_class, WarmNanny):
        return nanny_class
    if nanny_class is Nanny:
        return WarmNanny
    return type(f"Warm{nanny_class.__name__}", (WarmNanny, nanny_class), {})
