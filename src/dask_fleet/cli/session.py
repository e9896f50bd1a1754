"""A session: a cluster from its start to its end, with a command or without.

A signal means something else in each part. While the cluster starts, it ends the start;
while the command runs, it goes to the command; while everything is being closed, only a
second Ctrl-C counts, and ends all at once. A first one must not: the Ctrl-C that ended
the command may be heard of after its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from dask_fleet.cli import build
from dask_fleet.cli import signals as sig
from dask_fleet.cli.command import (
    BY_SIGNAL,
    OURSELVES_FAILED,
    CannotRun,
    Command,
    exit_code,
    outcome,
)
from dask_fleet.cli.display import Display
from dask_fleet.cli.options import FleetOptions
from dask_fleet.cli.output import Output
from dask_fleet.cli.watch import Watch, place
from dask_fleet.cluster.errors import FleetError

if TYPE_CHECKING:
    from dask_fleet.cluster import Cluster


class Session:
    """What ``dask fleet run`` and ``dask fleet up`` have in common.

    Parameters
    ----------
    options
        The cluster.
    display
        Where to show what is going on.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        options: FleetOptions,
        display: Display,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._display = display
        self._clock = clock
        self._signals = sig.Signals(self._while_closing)
        self._presses = sig.Presses()

    def run(self, arguments: Sequence[str]) -> int:
        """Run a command with a cluster; gives the exit code."""
        return asyncio.run(self._guarded(self._run(arguments)))

    def up(self, say: Output) -> int:
        """Keep a cluster until a signal comes; gives the exit code.

        Parameters
        ----------
        say
            Where the addresses go.
        """
        return asyncio.run(self._guarded(self._up(say)))

    async def _guarded(self, work: Coroutine[None, None, int]) -> int:
        """Turn what may rightly go wrong into an exit code."""
        task = asyncio.current_task()
        assert task is not None
        self._signals.receiver = lambda signum: self._while_starting(task, signum)
        self._signals.listen()
        try:
            return await work
        except CannotRun as error:
            self._display.notice(str(error))
            return error.code
        except asyncio.CancelledError:
            if self._signals.first is None:
                raise
            return BY_SIGNAL + self._signals.first

    async def _run(self, arguments: Sequence[str]) -> int:
        async with self._cluster() as cluster:
            async with self._watch(cluster) as watch:
                await self._first_workers(cluster, watch)
                began = self._clock()
                returncode = await self._command(cluster, arguments)
                self._signals.receiver = self._while_closing
            summary = watch.summary(outcome(returncode), self._clock() - began)
        self._display.sum_up(summary)
        return exit_code(returncode)

    async def _up(self, say: Output) -> int:
        asked_to_end = asyncio.Event()
        async with self._cluster() as cluster:
            self._signals.receiver = lambda signum: self._while_up(asked_to_end, signum)
            say.write(_addresses(cluster))
            async with self._watch(cluster) as watch:
                await _either(asked_to_end.wait(), watch.over.wait())
                self._signals.receiver = self._while_closing
            ended = "closed"
            if not asked_to_end.is_set():
                ended = f"the cluster has ended: {cluster.state.last}"
            summary = watch.summary(ended, watch.ledger.seconds)
        self._display.sum_up(summary)
        if not asked_to_end.is_set():
            return OURSELVES_FAILED
        asked = self._signals.first
        polite = asked in (None, signal.SIGINT, signal.SIGTERM)
        return 0 if polite or asked is None else BY_SIGNAL + asked

    @contextlib.asynccontextmanager
    async def _cluster(self) -> AsyncIterator[Cluster]:
        """Start a cluster, and close it in the end."""
        cluster = self._built()
        try:
            await self._start(cluster)
            yield cluster
        finally:
            self._signals.receiver = self._while_closing
            await cluster.close()

    def _built(self) -> Cluster:
        try:
            return build.build(self._options)
        except (OSError, RuntimeError, ValueError) as error:
            raise _cannot_start(error) from error

    async def _start(self, cluster: Cluster) -> None:
        try:
            await cluster
        except UserWarning as warning:
            # See build: of a taken port, with advice that does not fit after it.
            port_is_taken, *_ = str(warning).strip().splitlines()
            error = OSError(f"--dashboard-address: {port_is_taken}")
            raise _cannot_start(error) from warning
        except (OSError, RuntimeError, ValueError) as error:
            raise _cannot_start(error) from error
        if self._options.adapt is not None:
            bounds = self._options.adapt
            cluster.adapt(minimum=bounds.minimum, maximum=bounds.maximum)

    async def _first_workers(self, cluster: Cluster, watch: Watch) -> None:
        """Wait until those workers are there that the user asked for.

        Many a script looks once, at its start, how many there are.
        """
        adapt = self._options.adapt
        number = cluster.target if adapt is None else adapt.minimum
        if not number:
            return
        try:
            await cluster.wait_for_workers(number)
        except FleetError:
            # Tells why they cannot come. The command may do without them, or wait for
            # those that are tried again.
            await watch.show()

    async def _command(self, cluster: Cluster, arguments: Sequence[str]) -> int:
        environment = {"DASK_SCHEDULER_ADDRESS": cluster.scheduler_address}
        command = Command(arguments, environment)
        self._signals.receiver = lambda signum: self._while_running(command, signum)
        try:
            return await command.wait()
        except BaseException:
            command.kill()
            raise

    def _while_starting(self, task: asyncio.Task[int], signum: int) -> None:
        self._signals.receiver = self._while_closing
        self._presses.judge(signum, self._clock())
        task.cancel()

    def _while_running(self, command: Command, signum: int) -> None:
        typed = command.shares_group and sig.typed(signum)
        if typed and sig.keys_are_read():
            return
        verdict = self._presses.judge(signum, self._clock())
        if verdict is sig.Verdict.KILL:
            command.kill()
        elif verdict is sig.Verdict.PASS and not typed:
            command.send(signum)

    def _while_up(self, asked_to_end: asyncio.Event, signum: int) -> None:
        self._signals.receiver = self._while_closing
        self._presses.judge(signum, self._clock())
        asked_to_end.set()

    def _while_closing(self, signum: int) -> None:
        if self._presses.judge(signum, self._clock()) is sig.Verdict.KILL:
            sig.end_hard(signum, self._display.close)

    def _watch(self, cluster: Cluster) -> Watch:
        return Watch(
            cluster,
            self._display,
            hint=lambda: self._presses.hint(self._clock()),
            clock=self._clock,
        )


def _cannot_start(error: Exception) -> CannotRun:
    text = str(error) or type(error).__name__
    return CannotRun(f"the cluster cannot be started: {text}", OURSELVES_FAILED)


def _addresses(cluster: Cluster) -> str:
    where = place(cluster)
    dashboard = f"dashboard {where.dashboard}\n" if where.dashboard else ""
    return f"scheduler {where.scheduler}\n{dashboard}"


async def _either(*waits: Coroutine[None, None, object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
