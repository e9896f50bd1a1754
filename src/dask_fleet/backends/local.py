"""LocalCluster: a scheduler and workers on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dask.config
from dask.system import CPU_COUNT
from distributed import Nanny, Scheduler, Security, Worker
from distributed.deploy.utils import nprocesses_nthreads
from distributed.utils import silence_logging_cmgr
from distributed.worker_memory import parse_memory_limit
from tornado.ioloop import IOLoop

from dask_fleet.cluster import Cluster
from dask_fleet.cluster.arguments import described, worker_count
from dask_fleet.cluster.view import status_row
from dask_fleet.core import EndingKind
from dask_fleet.processes import (
    ForkServer,
    check_main_guard,
    pre_spawn_environ,
    start_method,
    warm,
)
from dask_fleet.processes.one_life import has_one_life, is_mistake, last_words
from dask_fleet.processes.quiet import failed_starts_untold

logger = logging.getLogger(__name__)


class LocalCluster(Cluster):
    """A scheduler in this process, and workers on this machine.

    Takes the arguments of ``distributed.LocalCluster``, with the same meaning.

    Parameters
    ----------
    name
        Shown to people.
    n_workers
        Workers to begin with; by default as many as suit the cores.
    threads_per_worker
        Threads of each worker.
    processes
        Worker processes (the default) or threads of this process.
    loop
        Event loop to use.
    host
        Address on which the scheduler listens; the loopback address by default.
    scheduler_port
        Its port; 0 for any.
    silence_logs
        Level from which logs are shown; a false value leaves them alone.
    dashboard_address
        Of the scheduler's dashboard, on the loopback address unless it names a host;
        ``None`` for no dashboard.
    worker_dashboard_address
        Of the workers' dashboards; none by default.
    service_kwargs
        Keywords for the services of the scheduler.
    asynchronous
        For use with ``await``.
    security
        TLS credentials; ``True`` makes temporary ones.
    protocol
        Such as ``"tcp://"``, ``"tls://"``, ``"inproc://"``.
    blocked_handlers
        Handlers that the scheduler must not have.
    interface
        Network interface to use.
    worker_class
        Class of the workers or nannies.
    scheduler_kwargs
        More keywords for the scheduler.
    wait
        Wait until the first workers are there; otherwise until the scheduler is ready.
    worker_kwargs
        Keywords for the workers, ``memory_limit`` and ``env`` among them.

    Examples
    --------
    >>> with LocalCluster(n_workers=2) as cluster:  # doctest: +SKIP
    ...     cluster.scale(4)
    """

    def __init__(
        self,
        name: str | None = None,
        n_workers: int | None = None,
        threads_per_worker: int | None = None,
        processes: bool | None = None,
        loop: IOLoop | None = None,
        start: bool | None = None,
        host: str | None = None,
        ip: str | None = None,
        scheduler_port: int = 0,
        silence_logs: int | bool | str | None = logging.WARNING,
        dashboard_address: str | None = ":8787",
        worker_dashboard_address: str | None = None,
        services: Mapping[Any, Any] | None = None,
        worker_services: Mapping[Any, Any] | None = None,
        service_kwargs: Mapping[str, Any] | None = None,
        asynchronous: bool = False,
        security: Security | bool | None = None,
        protocol: str | None = None,
        blocked_handlers: Sequence[str] | None = None,
        interface: str | None = None,
        worker_class: type[Worker] | type[Nanny] | None = None,
        scheduler_kwargs: Mapping[str, Any] | None = None,
        scheduler_sync_interval: float | str = 1,
        *,
        wait: bool = True,
        **worker_kwargs: Any,
    ) -> None:
        check_main_guard()
        host = _warn_of_old(ip, start, host, worker_kwargs)
        self.processes = (
            worker_class is None or issubclass(worker_class, Nanny)
            if processes is None
            else bool(processes)
        )
        self._worker_class: type[Any] = worker_class or (
            Nanny if self.processes else Worker
        )
        credentials = _credentials(security)
        protocol = _protocol(
            protocol, host, credentials, self.processes, scheduler_port
        )
        if host is None and not protocol.startswith("inproc") and not interface:
            host = "127.0.0.1"
        count, threads = _sizes(n_workers, threads_per_worker, self.processes)
        if count and "memory_limit" not in worker_kwargs:
            worker_kwargs["memory_limit"] = parse_memory_limit(
                "auto", 1, count, logger=logger
            )
        self._threads = threads or CPU_COUNT
        self._worker_options: dict[str, Any] = {
            **worker_kwargs,
            "host": host,
            "nthreads": threads,
            "services": dict(worker_services or {}),
            "dashboard_address": worker_dashboard_address,
            "dashboard": worker_dashboard_address is not None,
            "interface": interface,
            "protocol": protocol,
            "security": credentials,
            "silence_logs": silence_logs,
        }
        scheduler_options = {
            "host": host,
            "services": dict(services or {}),
            "service_kwargs": service_kwargs,
            "security": credentials,
            "port": scheduler_port,
            "interface": interface,
            "protocol": protocol,
            "dashboard": dashboard_address is not None,
            "dashboard_address": _dashboard_on(dashboard_address, host),
            "blocked_handlers": blocked_handlers,
            **(scheduler_kwargs or {}),
        }
        #: The worker or nanny of each name, from its start until its end.
        self.workers: dict[str, Worker | Nanny] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._fork_server: ForkServer | None = None
        self._silence = contextlib.ExitStack()
        if silence_logs:
            self._silence.enter_context(failed_starts_untold())
            for root in ("distributed", "bokeh"):
                self._silence.enter_context(
                    silence_logging_cmgr(level=silence_logs, root=root)
                )
        options: dict[str, Any] = {
            "n_workers": count,
            "asynchronous": asynchronous,
            "loop": loop,
            "security": credentials,
            "name": name,
            "wait": wait,
            "scheduler_options": scheduler_options,
            "scheduler_sync_interval": scheduler_sync_interval,
        }
        super().__init__(**options)

    # -- the resource manager: this machine ----------------------------------------

    async def prepare(self) -> None:
        """Start the fork server, while the scheduler starts."""
        if issubclass(self._worker_class, Nanny):
            worker_class: type[Nanny] = self._worker_class
            if start_method() == "warm":
                preload = dask.config.get("fleet.local.preload")
                self._fork_server = ForkServer(
                    pre_spawn_environ(), preload=["dask_fleet.backends.local", *preload]
                )
                worker_class = warm(worker_class)  # type: ignore[arg-type]  # a class has a hash
                self._worker_options["fork_server"] = self._fork_server
            self._worker_class = has_one_life(worker_class)  # type: ignore[arg-type]

    def create_scheduler(self) -> Scheduler:
        """Make the scheduler; not started yet."""
        return Scheduler(**self._scheduler_options)

    async def start_scheduler(self) -> str:
        """Start the scheduler; a port that is in use is named."""
        try:
            return await super().start_scheduler()
        except (OSError, RuntimeError) as error:
            port = self._scheduler_options["port"]
            if _is_port_taken(error):
                raise OSError(
                    errno.EADDRINUSE,
                    f"scheduler_port {port} is already in use on "
                    f"{self._scheduler_options['host']}; give another, or 0 for any",
                ) from error
            raise

    async def scale_up(self, workers: list[str]) -> None:
        """Start workers; return once their starts are under way."""
        for name in workers:
            made = self._worker_class(
                self.scheduler_address, **{**self._worker_options, "name": name}
            )
            self.workers[name] = made
            self._lives[name] = asyncio.create_task(self._lead(name, made))

    async def _lead(self, name: str, worker: Worker | Nanny) -> None:
        """Start one worker and follow it to its end."""
        try:
            await worker
            await worker.finished()
        except asyncio.CancelledError:
            if isinstance(worker, Worker):
                await worker.close(timeout=5, nanny=False, reason="fleet-scale-down")
            raise
        except Exception as error:  # noqa: BLE001  # whatever it was, it has ended
            wrong = is_mistake(worker, error)
            kind = EndingKind.MISTAKE if wrong else EndingKind.CRASHED
            self.worker_ended(name, last_words(worker, error), kind)
        else:
            words = last_words(worker, None)
            if words:
                self.worker_ended(name, words, EndingKind.CRASHED)
            else:
                self.worker_ended(name, "it closed itself", EndingKind.EXPIRED)
        finally:
            self.workers.pop(name, None)
            self._lives.pop(name, None)

    async def scale_down(self, workers: list[str]) -> None:
        """End workers; return once they have ended."""
        ending = [name for name in workers if name in self.workers]
        results = await asyncio.gather(
            *(self._end(name) for name in ending), return_exceptions=True
        )
        failed = [described(one) for one in results if isinstance(one, Exception)]
        if failed:
            raise RuntimeError("; ".join(failed))

    async def _end(self, name: str) -> None:
        """End a worker in whatever state it is."""
        worker = self.workers[name]
        if isinstance(worker, Nanny):
            await worker.close(reason="fleet-scale-down")
        else:
            # A start under way would go on after ``close``: it is broken off first.
            life = self._lives[name]
            life.cancel()
            await asyncio.wait([life])

    async def clean_up(self, limit: float) -> None:
        """Kill what is left, and the fork server."""
        lives = list(self._lives.values())
        if self._fork_server is not None:
            await self._fork_server.release()
        if lives:
            _, late = await asyncio.wait(lives, timeout=limit)
            for life in late:
                life.cancel()

    async def _closed(self) -> None:
        await super()._closed()
        self._silence.close()

    @property
    def dashboard_link(self) -> str:
        """Where the dashboard is; on loopback where the scheduler has no address."""
        link: str = super().dashboard_link
        if not self.scheduler_address.startswith("inproc://"):
            return link
        own = self.scheduler_address.split("://")[1].split("/")[0]
        return link.replace(own, "127.0.0.1")

    def default_maximum(self) -> tuple[float, str]:
        """As many workers as the cores of this machine have room for."""
        return max(1, CPU_COUNT // self._threads), (
            f"this machine has {CPU_COUNT} cores, a worker {self._threads} thread(s)"
        )

    @property
    def worker_threads(self) -> int:
        """Threads of one worker."""
        return self._threads

    @property
    def worker_memory(self) -> int | None:
        """Memory limit of one worker, in bytes; ``None`` if it has none."""
        given = self._worker_options.get("memory_limit", "auto")
        return parse_memory_limit(given, self._threads, logger=logger)

    @property
    def worker_resources(self) -> Mapping[str, float]:
        """Resources that each worker offers."""
        return dict(self._worker_options.get("resources") or {})

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        row = status_row("Using processes", str(self.processes))
        return super()._repr_html_((cluster_status or "") + row)


def _warn_of_old(
    ip: str | None, start: bool | None, host: str | None, options: dict[str, Any]
) -> str | None:
    """Warn of arguments that distributed has deprecated; return the host."""
    if ip is not None:
        warnings.warn("ip is deprecated; use host", DeprecationWarning, stacklevel=3)
        host = ip
    if start is not None:
        warnings.warn(
            "start is deprecated and has no effect", DeprecationWarning, stacklevel=3
        )
    if "dashboard" in options:
        warnings.warn(
            "use dashboard_address for the scheduler's dashboard and "
            "worker_dashboard_address for those of the workers, not dashboard",
            stacklevel=3,
        )
    return host


def _credentials(security: Security | bool | None) -> Security:
    if security is True:
        temporary: Security = Security.temporary()
        return temporary
    if not security:
        return Security()
    if isinstance(security, Security):
        return security
    raise TypeError(
        f"security must be a Security object, True or None; got {security!r}"
    )


def _protocol(
    protocol: str | None,
    host: str | None,
    security: Security,
    processes: bool,
    port: int,
) -> str:
    """Choose the protocol, always ending in ``://``."""
    if protocol is None:
        if host and "://" in host:
            protocol = host.split("://")[0]
        elif security.require_encryption:
            protocol = "tls"
        else:
            protocol = "tcp" if processes or port else "inproc"
    return protocol if protocol.endswith("://") else f"{protocol}://"


def _sizes(
    n_workers: int | None, threads: int | None, processes: bool
) -> tuple[int, int | None]:
    """Choose the number of workers and the threads of each, as distributed does."""
    if n_workers is not None:
        n_workers = worker_count("n_workers", n_workers)
    if threads is not None:
        threads = worker_count("threads_per_worker", threads, lowest=1)
    if n_workers is None and threads is None:
        return nprocesses_nthreads() if processes else (1, CPU_COUNT)
    if n_workers is None:
        assert threads is not None
        return (max(1, CPU_COUNT // threads) if processes else 1), threads
    if n_workers and threads is None:
        threads = max(1, math.ceil(CPU_COUNT / n_workers))
    return n_workers, threads


def _dashboard_on(address: str | None, host: str | None) -> str:
    """Bind the dashboard where the scheduler listens, unless it names a host itself.

    Without a dashboard the scheduler still serves a page or two, on any free port.
    """
    if address is None:
        address = ":0"
    if str(address).startswith(":"):
        bare = (host or "127.0.0.1").split("://")[-1]
        return f"{bare}{address}"
    return address


def _is_port_taken(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is about a port in use."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            return True
        error = error.__cause__ or error.__context__
    return False
