"""Between the hooks of a cluster and the core: the books, the loop and the history.

One object a cluster, used only from the cluster's event loop. The shell above it
(:class:`~dask_fleet.cluster.cluster.Cluster`) checks arguments and crosses threads;
the core below it decides.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.config
from distributed import Scheduler
from distributed.core import rpc

from dask_fleet.cluster.adaptive import AdaptHandle, AdaptiveOptions, TargetError
from dask_fleet.cluster.arguments import described, seconds
from dask_fleet.cluster.config import (
    configured_count,
    configured_leaving,
    configured_seconds,
    configured_settings,
)
from dask_fleet.cluster.departed import DepartedLogs
from dask_fleet.cluster.errors import ClosedError, StartError
from dask_fleet.cluster.performer import Manager, Performer
from dask_fleet.cluster.polling import Poll, Poller
from dask_fleet.cluster.pulse import Pulse
from dask_fleet.cluster.reconciler import Reconciler
from dask_fleet.cluster.scheduler_link import Leaving, TargetQuestion, link_to
from dask_fleet.cluster.scheduler_side import SchedulerSide
from dask_fleet.cluster.scheduler_stream import SchedulerStream
from dask_fleet.cluster.start_times import StartTimes
from dask_fleet.cluster.told import Teller
from dask_fleet.core import (
    Cause,
    Decision,
    Ended,
    Ending,
    Event,
    EventLog,
    Fleet,
    Limits,
    Reason,
    Release,
    Snapshot,
    Start,
    State,
    decide,
)
from dask_fleet.core.causes import because
from dask_fleet.core.pace import pace
from dask_fleet.core.record import line

logger = logging.getLogger("dask_fleet")

#: Between two looks because of new work at least so many seconds pass.
NUDGE_PAUSE = 0.1


class Control:
    """Runs one fleet.

    Parameters
    ----------
    manager
        The hooks of the cluster.
    workers_per_instance
        How many workers one start brings.
    limits
        Limits that hold whoever sets the target.
    poll, poll_interval
        The hook, if the cluster has it, and the seconds between two calls.
    """

    def __init__(
        self,
        manager: Manager,
        workers_per_instance: int,
        limits: Limits,
        poll: Poll | None = None,
        poll_interval: float = 10.0,
    ) -> None:
        self.fleet = Fleet(configured_settings(workers_per_instance), limits)
        self.log = EventLog(
            configured_count("fleet.events-length", lowest=1),
            epoch=time.time() - time.monotonic(),
        )
        self.departed = DepartedLogs(configured_count("fleet.logs-of-departed"))
        self.pulse = Pulse()
        self.handle: AdaptHandle | None = None
        #: Why nothing works any more; ``None`` while all is well.
        self.failure: str | None = None
        self._manager = manager
        self._own_limits = limits
        self._failed: list[Callable[[str], None]] = []
        self._target_failed: str | None = None
        self.start_times = StartTimes()
        #: Why the policy wants what it wants, in a few words.
        self._why = ""
        #: What was said last about tasks that cannot run.
        self._impossible = ""
        self._nudger: asyncio.Task[None] | None = None
        self._call_timeout = configured_seconds("fleet.call-timeout")
        self._record_to: str | None = dask.config.get("fleet.record")
        self.stream: SchedulerStream | None = None
        self._leaving = configured_leaving()
        self.side = SchedulerSide(
            self.addresses, self.departed, self._leaving, self._happened
        )
        self._teller: Teller | None = None
        self._reconciler: Reconciler | None = None
        self._follower: asyncio.Task[None] | None = None
        self._poller: Poller | None = None
        if poll is not None:
            self._poller = Poller(
                poll,
                self.fleet,
                self._instance_ended,
                self._happened,
                seconds("poll_interval", poll_interval),
                self._call_timeout,
            )

    # -- opening and closing -----------------------------------------------------

    async def open(
        self,
        comm: rpc,
        scheduler: Scheduler | None,
        is_gone: Callable[[], str | None],
    ) -> None:
        """Connect to the scheduler and begin to reconcile.

        Parameters
        ----------
        comm
            Connection to the scheduler.
        scheduler
            The scheduler, if it runs in this process.
        is_gone
            Says why the scheduler is known to be gone, if it is.
        """
        link, why_plain = await link_to(scheduler, comm, self.addresses)
        if why_plain:
            self._happened([because(Cause.PLAIN_SCHEDULER, detail=why_plain)])
        self.side.connect(link)
        self._teller = Teller(comm)
        self._teller.tell(tuple(self.log))
        self.fleet.recallable = link.recallable
        self.stream = SchedulerStream(
            comm,
            self.wake,
            self._reconnected,
            is_gone,
            configured_seconds("fleet.deadlines.reconnect"),
        )
        await self.stream.open()
        performer = Performer(
            self._manager,
            self.side,
            self._workers_of,
            self._call_timeout,
            lambda: self.fleet.closing,
        )
        self._reconciler = Reconciler(
            self.fleet,
            performer,
            self.seen,
            self._decided,
            self._happened,
            self.pulse,
        )
        self._reconciler.start()
        self._follower = asyncio.create_task(self._follow(), name="fleet follower")
        if self._poller is not None:
            self._poller.start()

    async def _follow(self) -> None:
        assert self.stream is not None
        try:
            why = await self.stream.follow()
        except Exception as error:  # whatever it was, nobody follows the workers now
            logger.exception("following the scheduler failed")
            why = described(error)
        self.fail(why)

    def _reconnected(self) -> None:
        self._happened([because(Cause.RECONNECTED)])

    def on_failure(self, told: Callable[[str], None]) -> None:
        """Have somebody told, with the reason, when the scheduler is gone for good."""
        self._failed.append(told)

    def fail(self, why: str) -> None:
        """Nothing works any more: say so to everybody who waits."""
        if self.failure is None:
            self.failure = why
            self._happened([because(Cause.FAILED, detail=why)])
            for told in self._failed:
                told(why)
            self.pulse.beat()

    async def empty(self, limit: float) -> bool:
        """Let everything go; return whether it has gone within ``limit`` seconds."""
        self.fleet.closing = True
        if self._reconciler is None:
            return True
        self._look()
        gone = self.pulse.until(lambda: not self.fleet.instances)
        try:
            await asyncio.wait_for(gone, limit)
        except asyncio.TimeoutError:
            return False
        return True

    async def turned_away(self, workers: set[str], limit: float) -> None:
        """Wait for workers that are still on their way, to send them away.

        Parameters
        ----------
        workers
            Names that were asked for and had not come when closing began.
        limit
            Seconds to wait at most.
        """
        if not workers or self._reconciler is None:
            return
        sent = self.pulse.until(lambda: workers <= self.fleet.turned_away.keys())
        try:
            await asyncio.wait_for(sent, limit)
        except asyncio.TimeoutError:
            logger.info("%d worker(s) on their way did not come", len(workers))

    async def close(self) -> None:
        """End all tasks and the connection to the scheduler."""
        self.fleet.closing = True
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
        if self._poller is not None:
            await self._poller.stop()
        if self._reconciler is not None:
            await self._reconciler.stop()
        if self._teller is not None:
            await self._teller.close()
        if self.stream is not None:
            await self.stream.close()
        self._happened([because(Cause.CLOSED)])
        self.pulse.beat()

    # -- what is known -------------------------------------------------------------

    @property
    def workers(self) -> dict[str, dict[str, Any]]:
        """What the scheduler tells of each worker, by address."""
        if self.stream is None:
            return {}
        workers: dict[str, dict[str, Any]] = self.stream.info["workers"]
        return workers

    def addresses(self) -> dict[str, str]:
        """The address of each worker that the scheduler sees, by name."""
        return {str(info["name"]): a for a, info in self.workers.items()}

    def seen(self) -> frozenset[str] | None:
        """Names of the workers that the scheduler sees; ``None`` if it is silent."""
        if self.stream is None or not self.stream.is_open:
            return None
        return frozenset(self.addresses())

    @property
    def observed(self) -> set[str]:
        """Names of the workers that the scheduler sees, as far as known."""
        return set(self.addresses())

    @property
    def at_work(self) -> int:
        """How many of the observed workers are not about to leave."""
        return len(self.observed - self._leaving_names())

    def _leaving_names(self) -> set[str]:
        return {
            name
            for one in self.fleet.instances.values()
            if one.state in (State.DRAINING, State.LEAVING)
            for name in one.workers
        }

    @property
    def target(self) -> int:
        """Workers that should exist, within the bounds."""
        limits = self.fleet.limits
        wanted = max(self.fleet.target.workers, limits.minimum)
        return int(min(wanted, limits.maximum))

    def _workers_of(self, token: str) -> tuple[str, ...]:
        one = self.fleet.instances.get(token)
        return one.workers if one is not None else ()

    # -- setting the target ----------------------------------------------------------

    def scale(self, workers: int, how: Leaving | None = None) -> None:
        """Set the target by hand, and act on it at once. Ends adaptive scaling.

        Parameters
        ----------
        workers
            The number.
        how
            How workers leave; by default as configured.
        """
        self.stop_adapting("scale was called")
        self.side.wish(how or self._leaving)
        self.fleet.forgive()
        self._set_target(workers, Cause.SCALED)

    def wanted_duration(self) -> float:
        """How long a computation should take, in seconds, as a policy may want it."""
        handle = self.handle
        if handle is None:
            return configured_seconds("distributed.adaptive.target-duration")
        if not handle.options.hurries:
            return handle.target_duration
        return pace(handle.target_duration, self.start_times.typical)

    async def ask_scheduler(self, question: TargetQuestion) -> int:
        """Ask the default policy, and remember why it says so."""
        answer = await self.side.link.adaptive_target(question)
        self.policy_says(answer.why)
        if answer.impossible != self._impossible:
            self._impossible = answer.impossible
            if answer.impossible:
                reason = because(Cause.IMPOSSIBLE, detail=answer.impossible)
                self._happened([reason])
                logger.warning("%s", reason)
        return answer.target

    def policy_says(self, why: str) -> None:
        """Remember why a policy wants what it wants."""
        self._why = why or "by the policy"

    def follow(self, workers: int) -> None:
        """Set the target as a policy wants it, and act on it at once.

        Parameters
        ----------
        workers
            The number.
        """
        self._set_target(workers, Cause.ADAPTED)

    def leaving(self, **changes: Any) -> Leaving:
        """How workers leave, with some changes."""
        return replace(self._leaving, **changes)

    def _set_target(self, workers: int, by: Cause) -> None:
        before = self.target
        self.fleet.set_target(workers, now=time.monotonic(), by=by)
        if before != self.target or by is Cause.SCALED:
            reason = because(by, before=before, after=self.target, detail=self._why)
            self._note([reason], before=before, after=self.target)
        self._look()

    def dismiss(self, workers: Iterable[str]) -> None:
        """Let certain workers go, and no others come in their place.

        Parameters
        ----------
        workers
            Names; those that are not planned are passed over.
        """
        homes = (self.fleet.home_of(name) for name in workers)
        chosen = {one.token: one for one in homes if one is not None}
        before = self.target
        self.fleet.dismiss(chosen, now=time.monotonic())
        names = [name for one in chosen.values() for name in one.workers]
        reason = because(
            Cause.DISMISSED,
            *names,
            count=len(names),
            before=before,
            after=self.target,
        )
        self._note([reason], before=before, after=self.target)
        self._look()

    def adapt(self, handle: AdaptHandle, assumed: str) -> None:
        """Let a new policy take over from the present size.

        Parameters
        ----------
        handle
            Not yet started.
        assumed
            Where its maximum comes from, if the user gave none; empty if he did.
        """
        self.stop_adapting("adapt was called again", quiet=True)
        options = handle.options
        now = time.monotonic()
        before = self.target
        self.fleet.forgive()
        self.fleet.set_limits(_with_bounds(self._own_limits, options), now=now)
        self.fleet.set_target(before, now=now, by=Cause.ADAPTED)
        self.side.wish(self.leaving(worker_key=options.worker_key, spare_pinned=True))
        self.handle = handle
        self._target_failed = None
        maximum = (
            int(options.maximum) if options.maximum < float("inf") else "unlimited"
        )
        reasons = [
            because(
                Cause.ADAPT_STARTED,
                minimum=options.minimum,
                maximum=maximum,
                interval=options.interval,
                calm=options.calm,
            )
        ]
        if assumed:
            reasons.append(
                because(Cause.MAXIMUM_ASSUMED, maximum=maximum, detail=assumed)
            )
        self._happened(reasons)
        handle.start()
        self._nudger = asyncio.create_task(self._nudge(handle), name="fleet nudger")
        self._look()

    def bounds_changed(self, handle: AdaptHandle) -> None:
        """Hold the target to the new bounds of the policy at work."""
        if self.handle is handle:
            limits = _with_bounds(self._own_limits, handle.options)
            self.fleet.set_limits(limits, now=time.monotonic())
            self._look()

    def stop_adapting(self, reason: str, *, quiet: bool = False) -> None:
        """End the policy at work, if any; the target stays where it is."""
        handle, self.handle = self.handle, None
        if self._nudger is not None:
            self._nudger.cancel()
            self._nudger = None
        if handle is None or not handle.ended():
            return
        target = self.target
        self.fleet.set_limits(self._own_limits, now=time.monotonic())
        self.fleet.set_target(target, now=time.monotonic(), by=Cause.SCALED)
        self.side.wish(self._leaving)
        if not quiet:
            self._happened([because(Cause.ADAPT_STOPPED, detail=reason)])

    async def _nudge(self, handle: AdaptHandle) -> None:
        """Let a policy look as soon as work comes in, not only at its next turn."""
        known = -1
        while True:
            try:
                known = await self.side.link.await_work(known)
            except OSError as error:
                # Its turns go on all the same; the stream tells if it is serious.
                logger.debug("nobody tells of new work: %s", described(error))
                return
            await handle.step()
            await asyncio.sleep(min(NUDGE_PAUSE, handle.interval))

    def target_failed(self, error: TargetError) -> None:
        """A policy gave nothing usable: keep the target, say so once per change."""
        if self._target_failed != str(error):
            self._target_failed = str(error)
            self._happened(
                [because(Cause.TARGET_FAILED, after=self.target, detail=str(error))]
            )

    def target_back(self) -> None:
        """A policy gave a usable number; say so if the last time it did not."""
        if self._target_failed is not None:
            self._target_failed = None
            self._happened([because(Cause.TARGET_BACK)])

    async def rank(self, target: int) -> list[str]:
        """Ask the scheduler who should leave to get down to a number of workers.

        Parameters
        ----------
        target
            Workers that should remain.

        Returns
        -------
        list of str
            Names, cheapest first.
        """
        handle = self.handle
        if handle is not None and handle.options.workers_to_close is not None:
            return await handle.options.workers_to_close(target)
        instances = [
            one.workers
            for one in self.fleet.instances.values()
            if one.state is State.ARRIVED
        ]
        surplus = sum(map(len, instances)) - target
        return await self.side.rank(instances, surplus)

    # -- the loop ------------------------------------------------------------------

    def wake(self) -> None:
        """Something may have changed."""
        if self._reconciler is not None:
            self._reconciler.wake()

    def _look(self) -> None:
        """Decide now rather than in the next turn of the loop, and reckon anew."""
        if self._reconciler is not None:
            self._reconciler.look()
            self._reconciler.wake()

    def ended(self, worker: str, ending: Ending) -> None:
        """The resource manager says that a worker's instance is no more."""
        one = self.fleet.home_of(worker)
        if one is not None:
            self._instance_ended(one.token, ending)

    def _instance_ended(self, token: str, ending: Ending) -> None:
        if self._reconciler is not None:
            self._reconciler.apply(Ended(token, ending))

    @property
    def waiting(self) -> Mapping[str, str]:
        """Why workers are not here yet, in the resource manager's words, by name."""
        return self._poller.waiting if self._poller is not None else {}

    def imagine(self, target: int) -> Decision:
        """Decide as if somebody had just called ``scale(target)``; change nothing."""
        return decide(self.imagined(target))

    def imagined(self, target: int) -> Snapshot:
        """The facts of now with another target, as ``scale`` would set it."""
        facts = self.fleet.snapshot(time.monotonic(), self.seen())
        return replace(
            facts,
            target=target,
            names=self.fleet.names_ahead(target),
            limits=self._own_limits,
            failures=facts.failures.cleared(),
            wanted=(),
            ranking=None,
        )

    # -- waiting -------------------------------------------------------------------

    async def accepted(self) -> None:
        """Return once the resource manager has answered for all that is planned.

        Raises
        ------
        ClosedError
            If the cluster fails or is closed meanwhile.
        """

        def answered() -> bool:
            self.must_be_open()
            states = [one.state for one in self.fleet.instances.values()]
            return State.PLANNED not in states

        await self.pulse.until(answered)

    async def reached(self, wanted: int) -> None:
        """Return once at least so many workers are there and not about to leave.

        Raises
        ------
        StartError
            If no more workers can be started.
        ClosedError
            If the cluster fails or is closed meanwhile.
        """

        def there() -> bool:
            self.must_be_open()
            if self.at_work >= wanted:
                return True
            self._must_be_able_to_start()
            return False

        await self.pulse.until(there)

    async def reached_exactly(self, wanted: int) -> None:
        """Return once so many workers are there, none of them about to leave.

        Raises
        ------
        StartError, ClosedError
            As for :meth:`reached`.
        """

        def there() -> bool:
            self.must_be_open()
            if self.at_work == len(self.observed) == wanted:
                return True
            if self.at_work < wanted:
                self._must_be_able_to_start()
            return False

        await self.pulse.until(there)

    async def settled(self) -> None:
        """Return once the present target is there, and nothing starts or leaves.

        A pause between starts is waited for: the target counts, not what the limiters
        let through for now.

        Raises
        ------
        StartError, ClosedError
            As for :meth:`reached`.
        """
        size = self.fleet.settings.workers_per_instance

        def calm() -> bool:
            self.must_be_open()
            plan, observed = self.fleet.plan, self.observed
            # The scheduler may take a moment to notice the end of a worker.
            is_there = (
                plan <= observed
                and observed.isdisjoint(self._leaving_names())
                and observed.isdisjoint(self.fleet.departed)
            )
            if is_there and 0 <= len(plan) - self.target < size:
                return True
            if len(observed) < self.target:
                self._must_be_able_to_start()
            return False

        await self.pulse.until(calm)

    def must_be_open(self) -> None:
        """Raise if the cluster has failed or is closing.

        Raises
        ------
        ClosedError
            With the reason.
        """
        if self.failure is not None:
            raise ClosedError(f"the cluster has failed: {self.failure}")
        if self.fleet.closing:
            raise ClosedError("the cluster is closed")

    def _must_be_able_to_start(self) -> None:
        memory = self.fleet.failures
        if memory.is_open(self.fleet.settings.patience):
            raise StartError(f"no workers can be started: {memory.last}")

    # -- the history ---------------------------------------------------------------

    def _decided(self, snapshot: Snapshot, decision: Decision) -> None:
        reasons: Iterable[Reason] = decision.reasons
        if self._poller is not None:
            reasons = self._poller.with_details(reasons)
            self._poller.wake()
        self._note(
            reasons,
            before=decision.before,
            after=decision.after,
            now=decision.now,
            whole=True,
        )
        self._measure_starts(decision)
        if self._record_to is not None and decision.commands:
            with Path(self._record_to).open("a", encoding="utf-8") as file:
                file.write(line(snapshot, decision) + "\n")

    def _measure_starts(self, decision: Decision) -> None:
        for command in decision.commands:
            if isinstance(command, Start):
                self.start_times.asked(command.workers, decision.now)
            elif isinstance(command, Release):
                self.start_times.forget(command.workers)
        for reason in decision.reasons:
            if reason.cause is Cause.ARRIVED:
                self.start_times.arrived(reason.workers, decision.now)

    def _happened(self, reasons: Iterable[Reason]) -> None:
        size = len(self.fleet.plan)
        self._note(reasons, before=size, after=size)

    def _note(
        self,
        reasons: Iterable[Reason],
        *,
        before: int,
        after: int,
        now: float | None = None,
        whole: bool = False,
    ) -> list[Event]:
        new = self.log.note(
            reasons,
            now=time.monotonic() if now is None else now,
            before=before,
            after=after,
            by=self.fleet.target.by,
            whole=whole,
        )
        if self._teller is not None and not self.fleet.closing:
            self._teller.tell(new)
        for event in new:
            logger.info(
                "%s [target %d, plan %d, requested %d, observed %d]",
                event.sentence,
                self.target,
                len(self.fleet.plan),
                len(self.fleet.requested),
                len(self.observed),
            )
        return new


def _with_bounds(limits: Limits, options: AdaptiveOptions) -> Limits:
    """The limits of a cluster with the bounds of a policy."""
    return replace(
        limits,
        minimum=options.minimum,
        maximum=options.maximum,
        calm=options.calm,
    )
