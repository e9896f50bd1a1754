"""The cluster that users hold in their hands: one class, one ``scale``."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Generator, Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from distributed import Scheduler, Security
from distributed.core import Status
from distributed.deploy.cluster import Cluster as BaseCluster
from distributed.exceptions import WorkerStartTimeoutError
from distributed.utils import Log, Logs
from tornado.ioloop import IOLoop

from dask_fleet.cluster import names, view
from dask_fleet.cluster.adaptive import (
    AdaptHandle,
    AdaptiveOptions,
    TargetError,
    TargetFunction,
    ask,
    checked_options,
)
from dask_fleet.cluster.arguments import described, flag, seconds, worker_count
from dask_fleet.cluster.awaitables import After
from dask_fleet.cluster.config import configured_seconds
from dask_fleet.cluster.control import Control
from dask_fleet.cluster.direct import allow_calls
from dask_fleet.cluster.errors import ClosedError, StartError
from dask_fleet.cluster.exit import close_at_exit
from dask_fleet.cluster.hooks import Refusals, WorkerReport
from dask_fleet.cluster.legacy import LegacyHandle, LegacyPolicy, checked_class
from dask_fleet.cluster.life import Life
from dask_fleet.cluster.performer import Manager
from dask_fleet.cluster.scheduler_link import Leaving, TargetQuestion
from dask_fleet.cluster.scheduler_side import forced
from dask_fleet.cluster.units import lower_bound, upper_bound, workers_for
from dask_fleet.core import (
    AskRanking,
    Ending,
    EndingKind,
    Event,
    Limits,
    Recommendation,
    decide,
)
from dask_fleet.core.recommendation import recommendation
from dask_fleet.core.snapshot import Ranking
from dask_fleet.core.state_report import FleetState

logger = logging.getLogger(__name__)


class Cluster(BaseCluster):
    """A scheduler, and workers whose number can be changed.

    A new kind of cluster subclasses this and writes :meth:`scale_up`; everything else
    has a default. See :doc:`/new-cluster`.

    Parameters
    ----------
    scheduler
        A running scheduler's address. Without one, a scheduler is started in this
        process and ends with the cluster.
    n_workers
        Workers to begin with.
    asynchronous
        For use with ``await`` in a running event loop.
    loop
        Event loop to use; by default that of this thread (asynchronous) or one in a
        thread of its own.
    security
        TLS credentials and the like.
    name
        Shown to people. If another live cluster of this process has it, a number is
        put behind it.
    wait
        Wait until the first workers are there.
    shutdown_on_close
        Close the cluster when the Python process ends in the ordinary way.
    scheduler_options
        Keywords for the scheduler that is started here.

    Examples
    --------
    See ``examples/own_cluster.py``.
    """

    #: How many workers one start brings; targets count workers all the same.
    workers_per_instance: ClassVar[int] = 1

    #: Seconds between two calls of :meth:`poll`, if a subclass has it, while workers
    #: are waited for; six times as long while all are there.
    poll_interval: float = 10.0

    def __init__(
        self,
        scheduler: str | None = None,
        *,
        n_workers: int = 0,
        asynchronous: bool = False,
        loop: IOLoop | None = None,
        security: Security | None = None,
        name: str | None = None,
        wait: bool = True,
        shutdown_on_close: bool = True,
        scheduler_options: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        quiet: bool = True,
        scheduler_sync_interval: float | str = 1,
    ) -> None:
        first = worker_count("n_workers", n_workers)
        self.security = security or Security()
        self.scheduler: Scheduler | None = None
        self.shutdown_on_close = shutdown_on_close
        self._pid = os.getpid()
        self._scheduler_options = dict(scheduler_options or {})
        self._wait = wait
        self._info: dict[str, Any] = {"workers": {}}
        polls = type(self).poll is not Cluster.poll
        manager = self._manager()
        if manager is self:
            allow_calls(self)
        self._control = Control(
            manager,
            self.workers_per_instance,
            limits or Limits(),
            self.poll if polls else None,
            self.poll_interval,
        )
        self._control.fleet.set_target(first, now=time.monotonic())
        default_end = type(self).scale_down is Cluster.scale_down
        self._life = Life(self, self._control, scheduler, default_end)
        self._control.on_failure(self._life.scheduler_gone)
        super().__init__(
            asynchronous=asynchronous,
            loop=loop,
            quiet=quiet,
            name=names.claim(name, self),
            scheduler_sync_interval=scheduler_sync_interval,
        )
        close_at_exit(self)
        if not self.called_from_running_loop:
            self._loop_runner.start()
            problem: StartError | None = None
            try:
                self.sync(self._start)
            except StartError as error:
                problem = error
            except BaseException:
                self.close()
                raise
            if problem is not None:
                self.close()
                # Raised anew: how the wait for workers ended says nothing more.
                raise StartError(str(problem))

    def _manager(self) -> Manager:
        """Whose hooks are called: the cluster's own."""
        return self

    # -- what the author of a new kind of cluster writes ---------------------------

    async def scale_up(self, workers: list[str]) -> Refusals:
        """Ask the resource manager for workers: the one hook that must be written.

        Return once it has accepted them, not once they run. Each name must reach its
        worker process; a name is never given twice.

        Parameters
        ----------
        workers
            Names.

        Returns
        -------
        None or mapping
            The names that were refused, and why; the others stay accepted. Raising an
            exception refuses them all.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must have: "
            "async def scale_up(self, workers: list[str])"
        )

    async def scale_down(self, workers: list[str]) -> None:
        """Let the resource manager drop workers.

        Called after the scheduler has retired them, and also for names that never
        arrived or have died. A name that is gone already is no error.

        By default, the scheduler tells the worker to exit.

        Parameters
        ----------
        workers
            Names.
        """
        await self._control.side.turn_away(workers)

    async def poll(self) -> Mapping[str, WorkerReport]:
        """Ask the resource manager about all workers, in one go.

        Optional. Called only while something is requested, every ``poll_interval``
        seconds. If it raises or hangs, nothing is judged.

        Returns
        -------
        mapping
            What it says of each name. A name that is missing is not judged.
        """
        return {}

    async def adaptive_target(self) -> int:
        """The adaptive policy: the number of workers that should exist.

        By default the scheduler is asked. Override it, or give ``adapt(target=...)``.
        """
        question = TargetQuestion(
            duration=self._control.wanted_duration(),
            offer=self.worker_resources,
            threads_each=self.worker_threads,
            memory_each=self.worker_memory,
        )
        return await self._control.ask_scheduler(question)

    async def workers_to_close(self, target: int) -> list[str]:
        """Say which workers should leave, cheapest first.

        By default the scheduler is asked.

        Parameters
        ----------
        target
            Workers that should remain.

        Returns
        -------
        list of str
            Names. Only so many of them leave as are above the target, and none that is
            not in the list.
        """
        return await self._control.rank(target)

    def default_maximum(self) -> tuple[float, str]:
        """The maximum of ``adapt`` if none is given, and a few words why."""
        return math.inf, ""

    @property
    def worker_threads(self) -> int | None:
        """Threads of one worker; ``None`` if not known."""
        return self._of_some_worker("nthreads")

    @property
    def worker_memory(self) -> int | None:
        """Memory limit of one worker in bytes; ``None`` if not known or without."""
        return self._of_some_worker("memory_limit")

    @property
    def worker_resources(self) -> Mapping[str, float]:
        """Resources that each worker offers, such as ``{"GPU": 1}``."""
        for info in self.scheduler_info["workers"].values():
            return dict(info.get("resources") or {})
        return {}

    def _of_some_worker(self, key: str) -> int | None:
        for info in self.scheduler_info["workers"].values():
            return int(info[key]) or None
        return None

    def worker_ended(
        self, worker: str, detail: str, kind: EndingKind = EndingKind.CRASHED
    ) -> None:
        """Tell that a worker's process, job or pod is no more, as soon as it is known.

        For authors: what :meth:`poll` would find out later. Only from the event loop.

        Parameters
        ----------
        worker
            Its name.
        detail
            The resource manager's own words.
        kind
            The class of the ending.
        """
        self._control.ended(worker, Ending(kind, detail))

    # -- scaling -------------------------------------------------------------------

    def scale(  # type: ignore[override]  # the base class cannot scale
        self,
        n: int | None = None,
        *,
        cores: float | None = None,
        memory: str | float | None = None,
        drain_timeout: str | float | None = None,
        force: bool = False,
    ) -> Awaitable[None] | None:
        """Set how many workers should exist; ends adaptive scaling.

        Parameters
        ----------
        n
            Workers.
        cores
            Threads in all.
        memory
            Memory in all, such as ``"64 GiB"``. Of several, the one that needs most
            workers counts.
        drain_timeout
            How long workers that leave may finish what they run; after that their
            tasks are given to others. A bare number is seconds. By default
            ``fleet.drain-timeout``, which is as long as they take.
        force
            Let workers go at once, whatever they run or hold; the history says what
            was lost.

        Returns
        -------
        awaitable or None
            In an asynchronous cluster something that may be awaited: until the
            resource manager has accepted. The target is set at once either way.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong; nothing has changed then.
        ClosedError
            If the cluster is closed or has failed.

        Examples
        --------
        >>> cluster.scale(10)  # doctest: +SKIP
        """
        self._must_be_usable()
        count = workers_for(
            n=n,
            cores=cores,
            memory=memory,
            threads_each=self.worker_threads,
            bytes_each=self.worker_memory,
        )
        how = self._control.leaving()
        if drain_timeout is not None:
            limit = seconds("drain_timeout", drain_timeout, positive=False)
            how = self._control.leaving(drain_timeout=limit)
        if flag("force", force):
            how = forced(how)
        if self.asynchronous:
            self._control.scale(count, how)
            return After(self._control.accepted)
        self.sync(self._scale, count, how)
        return None

    async def _scale(self, count: int, how: Leaving) -> None:
        self._control.must_be_open()
        self._control.scale(count, how)

    def adapt(  # type: ignore[override]  # no Adaptive class is needed
        self,
        Adaptive: type[Any] | None = None,
        minimum: int | None = None,
        maximum: float | None = None,
        minimum_cores: float | None = None,
        maximum_cores: float | None = None,
        minimum_memory: str | float | None = None,
        maximum_memory: str | float | None = None,
        *,
        interval: str | float | None = None,
        wait_count: int | None = None,
        target_duration: str | float | None = None,
        target: TargetFunction | None = None,
        worker_key: Callable[[Any], Hashable] | None = None,
        **options: Any,
    ) -> AdaptHandle:
        """Let a policy set the target from now on.

        Called again, it replaces the policy at work; nothing of the first call stays.

        Parameters
        ----------
        Adaptive
            A subclass of distributed's ``Adaptive`` whose ``target`` or
            ``workers_to_close`` is asked. For code that has one; new code gives
            ``target``, or overrides :meth:`adaptive_target` or
            :meth:`workers_to_close`.
        minimum, maximum
            Bounds in workers. Without a maximum a cluster on one machine stops at its
            cores, and says so.
        minimum_cores, maximum_cores
            Bounds in threads.
        minimum_memory, maximum_memory
            Bounds in memory, such as ``"64 GiB"``.
        interval
            Time between two questions for the target; a bare number is seconds.
        wait_count
            The calm window, in intervals: workers leave once the target was lower for
            so long.
        target_duration
            Time that a computation should take; for the default policy.
        target
            A function, plain or async, that gives the number of workers that should
            exist. Replaces :meth:`adaptive_target`.
        worker_key
            A function of the scheduler's ``WorkerState``: workers with the same key
            leave together.
        options
            More keywords for the class ``Adaptive``.

        Returns
        -------
        AdaptHandle
            With ``stop()``, bounds and state.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong; nothing has changed then.
        ClosedError
            If the cluster is closed or has failed.

        Examples
        --------
        >>> cluster.adapt(minimum=0, maximum=10)  # doctest: +SKIP
        """
        self._must_be_usable()
        sizes = (self.worker_threads, self.worker_memory)
        low = lower_bound(minimum, minimum_cores, minimum_memory, *sizes)
        high = upper_bound(maximum, maximum_cores, maximum_memory, *sizes)
        given: dict[str, Any] = {
            "minimum": low,
            "maximum": high,
            "interval": interval,
            "wait_count": wait_count,
            "target_duration": target_duration,
            "worker_key": worker_key,
        }
        checked = checked_options(target=target, **given)
        handle: AdaptHandle
        kind = checked_class(Adaptive)
        if kind is not None:
            handle = self._legacy_handle(kind, checked, {**given, **options})
        elif options:
            raise TypeError(f"adapt does not know {', '.join(sorted(options))}")
        else:
            handle = AdaptHandle(checked, *self._told_by_handle())
        assumed = ""
        if math.isinf(handle.maximum) and high is None:
            most, assumed = self.default_maximum()
            bounded = max(most, handle.minimum)
            handle.options = replace(handle.options, maximum=bounded)
        self._adaptive = handle
        if self.asynchronous:
            self._control.adapt(handle, assumed)
        else:
            self.sync(self._adapt, handle, assumed)
        return handle

    def _told_by_handle(self) -> tuple[Any, Any, Any]:
        return self._adapt_once, self._handle_stopped, self._handle_changed

    def _legacy_handle(
        self, kind: type[Any], checked: AdaptiveOptions, given: dict[str, Any]
    ) -> LegacyHandle:
        """Make a handle for a policy that is a subclass of ``Adaptive``."""
        known = {name: value for name, value in given.items() if value is not None}
        legacy = LegacyPolicy(kind, self, known)
        legacy.warn(stacklevel=3)
        self._in_loop(legacy.silence)
        target = checked.target or legacy.target
        options = checked_options(target=target, **legacy.options)
        options = replace(options, workers_to_close=legacy.workers_to_close)
        handle = LegacyHandle(options, *self._told_by_handle())
        handle.policy = legacy.policy
        return handle

    async def _adapt(self, handle: AdaptHandle, assumed: str) -> None:
        self._control.must_be_open()
        self._control.adapt(handle, assumed)

    def _handle_stopped(self, handle: AdaptHandle, reason: str) -> None:
        """Stop a policy from whichever thread."""

        def stop() -> None:
            if self._control.handle is handle:
                self._control.stop_adapting(reason)

        self._in_loop(stop)

    def _handle_changed(self, handle: AdaptHandle) -> None:
        """Take note of changed options, from whichever thread."""
        self._in_loop(lambda: self._control.bounds_changed(handle))

    def _in_loop(self, do: Callable[[], None]) -> None:
        """Do something at once, in the event loop; nothing if it has ended."""
        if self.status in (Status.closed, Status.closing) or self._is_foreign():
            return

        async def done() -> None:
            do()

        if self.asynchronous:
            do()
        else:
            self.sync(done)

    async def _wanted(self) -> int:
        """Ask the policy at work."""
        handle = self._control.handle
        given = handle.options.target if handle is not None else None
        self._control.policy_says("by the given function" if given else "")
        return await ask(given or self.adaptive_target)

    async def safe_target(self) -> int:
        """Ask the policy for the target, and hold it to the bounds.

        Raises
        ------
        TargetError
            If it gives nothing that can be used.
        """
        limits = self._control.fleet.limits
        return int(min(max(await self._wanted(), limits.minimum), limits.maximum))

    async def _adapt_once(self) -> None:
        """Scale to what the policy wants. The bounds are the first of the limiters."""
        control = self._control
        handle = control.handle
        try:
            wanted = await self._wanted()
        except TargetError as error:
            if control.handle is handle:
                control.target_failed(error)
            return
        if control.handle is handle and handle is not None:
            control.target_back()
            control.follow(wanted)

    def recommendations(self, target: int) -> Any:
        """Say what ``scale(target)`` would do now, and why, without doing it.

        Parameters
        ----------
        target
            Workers.

        Returns
        -------
        Recommendation
            Or an awaitable of it, in an asynchronous cluster.
        """
        self._must_be_usable()
        return self.sync(self._recommendations, worker_count("target", target))

    async def _recommendations(self, target: int) -> Recommendation:
        facts = self._control.imagined(target)
        decision = decide(facts)
        if any(isinstance(command, AskRanking) for command in decision.commands):
            ranked = tuple(map(str, await self.workers_to_close(decision.allowed)))
            facts = self._control.imagined(target)
            ranking = Ranking(decision.allowed, facts.now, ranked)
            decision = decide(replace(facts, ranking=ranking))
        return recommendation(decision)

    # -- looking -------------------------------------------------------------------

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist."""
        return self._control.fleet.plan

    @property
    def requested(self) -> set[str]:
        """Names that the resource manager accepted and was not told to drop."""
        return self._control.fleet.requested

    @property
    def observed(self) -> set[str]:
        """Names of the workers that the scheduler sees."""
        return self._control.observed

    @property
    def target(self) -> int:
        """How many workers should exist."""
        return self._control.target

    @property
    def mode(self) -> str:
        """``"adaptive"`` while a policy sets the target, else ``"manual"``."""
        return "manual" if self._control.handle is None else "adaptive"

    @property
    def events(self) -> tuple[Event, ...]:
        """What was decided and what happened, newest last."""
        return tuple(self._control.log)

    @property
    def state(self) -> FleetState:
        """How the cluster stands, in one record."""
        return view.state_of(self._control, self.status)

    def explain(self) -> str:
        """Tell why there are not more workers, why not fewer, and why these ones."""
        return view.explanation(self._control, self.state)

    @property
    def scheduler_info(self) -> dict[str, Any]:
        """What the scheduler tells of itself and its workers, up to date."""
        stream = self._control.stream
        return self._info if stream is None else stream.info

    @scheduler_info.setter
    def scheduler_info(self, info: dict[str, Any]) -> None:
        self._info = info

    def wait_for_workers(
        self,
        n_workers: int | None = None,
        timeout: str | float | None = None,
        *,
        exactly: bool = False,
    ) -> Any:
        """Wait for workers.

        Parameters
        ----------
        n_workers
            Wait until at least so many are there. Without a number, until the cluster
            has settled: exactly the present target is there, and nothing is starting
            or leaving.
        timeout
            Longest time to wait; a bare number is seconds.
        exactly
            Wait until there are neither fewer nor more than ``n_workers``.

        Raises
        ------
        StartError
            At once, with the reason, if workers cannot be started.
        ClosedError
            If the cluster is closed or fails meanwhile.
        TimeoutError
            If it takes longer than ``timeout``.
        """
        if n_workers is not None:
            n_workers = worker_count("n_workers", n_workers, lowest=0 if exactly else 1)
        if exactly and n_workers is None:
            raise TypeError(
                "exactly=True needs a number: wait_for_workers(3, exactly=True)"
            )
        limit = None if timeout is None else seconds("timeout", timeout)
        self._must_be_usable()
        return self.sync(self._wait_for_workers, n_workers, limit, exactly)

    async def _wait_for_workers(
        self, n: int | None = None, timeout: float | None = None, exactly: bool = False
    ) -> None:
        control = self._control
        if n is None:
            waiting = control.settled()
        elif exactly:
            waiting = control.reached_exactly(n)
        else:
            waiting = control.reached(n)
        try:
            await asyncio.wait_for(waiting, timeout)
        except asyncio.TimeoutError:
            expected = control.target if n is None else n
            raise WorkerStartTimeoutError(
                len(control.observed), expected, timeout or 0
            ) from None

    # -- life ----------------------------------------------------------------------

    def create_scheduler(self) -> Scheduler:
        """Make the scheduler that runs in this process; not started yet."""
        options = {"security": self.security, "dashboard": False}
        return Scheduler(**{**options, **self._scheduler_options})

    async def prepare(self) -> None:
        """Hook for subclasses: get ready for starts, while the scheduler starts."""

    async def clean_up(self, limit: float) -> None:
        """Hook for subclasses: end by force what is left, within ``limit`` seconds."""

    async def start_scheduler(self) -> str:
        """Start the scheduler of :meth:`create_scheduler`; return its address."""
        self.scheduler = self.create_scheduler()
        await self.scheduler
        return str(self.scheduler.address)

    async def close_scheduler(self) -> None:
        """Close the scheduler of :meth:`start_scheduler`."""
        if self.scheduler is not None:
            await self.scheduler.close()

    async def _start(self) -> None:
        if self.status is not Status.created:
            self._control.must_be_open()
            return
        self.status = Status.starting
        try:
            await self._life.open(self._cluster_info)
            for callback in self.periodic_callbacks.values():
                callback.start()
            self.status = Status.running
            if self._wait and self._control.target:
                await self._control.settled()
        except BaseException:
            await self._close()
            raise

    def __await__(self) -> Generator[Any, Any, Cluster]:
        async def opened() -> Cluster:
            await self._start()
            return self

        return opened().__await__()

    def close(self, timeout: str | float | None = None) -> Any:
        """Close the cluster: no worker, and no scheduler it started, remains.

        Parameters
        ----------
        timeout
            Limit; a bare number is seconds. What has not ended by then is ended by
            force. By default ``fleet.close-timeout``.
        """
        limit = (
            configured_seconds("fleet.close-timeout")
            if timeout is None
            else seconds("timeout", timeout)
        )
        if self._is_foreign():
            return After(_nothing) if self.asynchronous else None
        if self.asynchronous:
            return asyncio.ensure_future(self._close(limit))
        if self.status is not Status.closed:
            try:
                self.sync(self._close, limit)
            except RuntimeError as error:
                if not self.loop.asyncio_loop.is_closed():  # type: ignore[union-attr]
                    raise
                logger.debug("the loop had ended: %s", described(error))
        self._loop_runner.stop()
        return None

    async def _close(self, limit: float | None = None) -> None:
        if limit is None:
            limit = configured_seconds("fleet.close-timeout")
        await self._life.close(limit, self._closed)

    async def _closed(self) -> None:
        """The last step of closing."""
        names.release(self.name, self)
        await super()._close()

    def _is_foreign(self) -> bool:
        """Whether this is a copy in a forked child, which must not touch anything."""
        return os.getpid() != self._pid

    def _must_be_usable(self) -> None:
        if self._is_foreign():
            raise ClosedError(
                "this cluster belongs to the process that this one was forked from"
            )
        if self.status in (Status.closing, Status.closed):
            raise ClosedError("the cluster is closed")
        self._control.must_be_open()

    async def __aexit__(self, *exc_info: object) -> None:
        await self._close()

    def __del__(self, *args: Any) -> None:
        if getattr(self, "_pid", None) == os.getpid():
            super().__del__(*args)

    # -- showing -------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return view.with_figures(super().__repr__(), self.state)

    def _repr_html_(self, cluster_status: str | None = None) -> str:
        rows = view.html_rows(self.state)
        html: str = super()._repr_html_(cluster_status=(cluster_status or "") + rows)
        return html

    def _scaling_status(self) -> str:
        return f"<table>{view.html_rows(self.state)}</table>"

    async def _get_logs(
        self, cluster: bool = True, scheduler: bool = True, workers: Any = True
    ) -> Logs:
        logs = Logs()
        if self.status is Status.running:
            logs = await super()._get_logs(False, scheduler, workers)
        if workers is True:
            for worker, text in self._control.departed.all.items():
                logs.setdefault(worker, Log(text))
        if cluster:
            logs["Cluster"] = Log("\n".join(map(str, self._control.log)))
        return logs

    def get_logs(
        self, cluster: bool = True, scheduler: bool = True, workers: Any = True
    ) -> Any:
        """Return the logs of the cluster, the scheduler and the workers.

        Parameters
        ----------
        cluster
            The history of the cluster.
        scheduler
            The scheduler's log.
        workers
            ``True`` for all workers, the last ones that are gone among them; a list of
            addresses; or ``False``.

        Returns
        -------
        Logs
            Texts by ``"Cluster"``, ``"Scheduler"``, and the address of a worker or,
            if it is gone, its name. Of a closed cluster, what is left.
        """
        if self.status is Status.closed and not self.asynchronous:
            logs = Logs()
            if workers is True:
                logs.update({n: Log(t) for n, t in self._control.departed.all.items()})
            if cluster:
                logs["Cluster"] = Log("\n".join(map(str, self._control.log)))
            return logs
        return self.sync(self._get_logs, cluster, scheduler, workers)


async def _nothing() -> None:
    """Nothing to wait for."""
