"""The only place that speaks with the scheduler about workers.

There are two ways of speaking with it. Usually our plugin is installed inside the
scheduler, and does all the work there (:class:`PluginLink`). A scheduler that runs
elsewhere may refuse plugins; then its own, simpler means have to do
(:class:`PlainLink`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from distributed import Scheduler
from distributed.core import rpc
from distributed.protocol import pickle

from dask_fleet.scheduler import PLUGIN_NAME, FleetPlugin
from dask_fleet.scheduler.logs import LOG_LIMIT, joined
from dask_fleet.scheduler.moving import NOBODY

logger = logging.getLogger(__name__)

#: Seconds in which a worker that was told to exit should have gone.
FAREWELL = 3.0

#: Names of the workers of one instance.
Names = Sequence[str]

#: A function of the scheduler's ``WorkerState``; equal keys leave together.
WorkerKey = Callable[[Any], Hashable]


@dataclass(frozen=True, slots=True)
class Leaving:
    """How workers are to leave.

    Parameters
    ----------
    drain_timeout
        Seconds after which running tasks are given to others; ``None`` for never.
    memory_fraction
        The share of a worker's memory limit that results may fill.
    worker_key
        Groups workers that leave together.
    spare_pinned
        Never choose those that run a task which has left its thread pool.
    force
        At once, whatever they run or hold.
    """

    drain_timeout: float | None = None
    memory_fraction: float = 0.8
    worker_key: WorkerKey | None = None
    spare_pinned: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """Who should leave, cheapest first, and why not more."""

    workers: list[str]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """What has become of instances that were to leave.

    Parameters
    ----------
    why
        By the first name: empty if it is retired, otherwise why it stays.
    logs
        What their workers had logged, by name.
    """

    why: Mapping[str, str]
    logs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetQuestion:
    """What the default policy has to know.

    Parameters
    ----------
    duration
        Seconds that a computation should take.
    offer
        Resources of each worker of this cluster.
    threads_each, memory_each
        Of each worker; ``None`` if not known.
    """

    duration: float
    offer: Mapping[str, float]
    threads_each: int | None
    memory_each: int | None


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """What the default policy says.

    Parameters
    ----------
    target
        Workers that should exist.
    why
        What asked for them.
    impossible
        About tasks that no worker of this cluster can run; empty if there are none.
    """

    target: int
    why: str = ""
    impossible: str = ""


class SchedulerLink(Protocol):
    """What the scheduler does for a cluster."""

    #: A drain can be taken back.
    recallable: bool

    async def adaptive_target(self, question: TargetQuestion) -> TargetAnswer:
        """Say for how many workers there is work."""

    async def await_work(self, known: int) -> int:
        """Return once there was more new work than ``known``; -1 asks how much."""

    async def rank(
        self, instances: Sequence[Names], surplus: int, how: Leaving
    ) -> Ranking:
        """Say who should leave."""

    async def leave(
        self,
        instances: Sequence[Names],
        how: Leaving,
        timeout: float | None,
        logs_of: Names,
    ) -> Ended:
        """Drain and retire; return what has become of one or more.

        Those that are asked about again are joined. ``timeout`` is what is left of the
        drain timeout, in seconds.
        """

    async def recall(self, instances: Sequence[Names]) -> set[str]:
        """Take drains back; return the first names of those that work again."""

    async def drop(
        self, workers: Names, logs_of: Names
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Let go of workers at once; return what was lost, if known, and their logs."""

    async def turn_away(self, workers: Names) -> None:
        """Send workers away."""


class _Link:
    """What both ways have in common."""

    def __init__(self, comm: rpc, addresses: Callable[[], Mapping[str, str]]) -> None:
        self._comm = comm
        self._addresses = addresses

    def _addresses_of(self, workers: Names) -> list[str]:
        known = self._addresses()
        return [known[name] for name in workers if name in known]


class PluginLink(_Link):
    """Speaks with our plugin inside the scheduler."""

    recallable = True

    async def adaptive_target(self, question: TargetQuestion) -> TargetAnswer:
        """Ask for how many workers there is work."""
        answer = await self._comm.fleet_target(
            duration=question.duration,
            offer=dict(question.offer),
            threads_each=question.threads_each,
            memory_each=question.memory_each,
        )
        return TargetAnswer(answer["target"], answer["why"], answer["impossible"])

    async def await_work(self, known: int) -> int:
        """Return once there was more new work than ``known``."""
        number: int = await self._comm.fleet_await_work(known=known)
        return number

    async def rank(
        self, instances: Sequence[Names], surplus: int, how: Leaving
    ) -> Ranking:
        """Ask who should leave."""
        key = pickle.dumps(how.worker_key) if how.worker_key is not None else None
        answer = await self._comm.fleet_rank(
            instances=[list(names) for names in instances],
            surplus=surplus,
            fraction=how.memory_fraction,
            worker_key=key,
            spare_pinned=how.spare_pinned,
            spare_actors=not how.force,
        )
        return Ranking(list(answer["workers"]), answer["detail"])

    async def leave(
        self,
        instances: Sequence[Names],
        how: Leaving,
        timeout: float | None,
        logs_of: Names,
    ) -> Ended:
        """Drain and retire; return what became of one or more."""
        answer = await self._comm.fleet_leave(
            instances=[list(names) for names in instances],
            timeout=timeout,
            fraction=how.memory_fraction,
            logs_of=list(logs_of),
        )
        return Ended(answer["why"], answer["logs"])

    async def recall(self, instances: Sequence[Names]) -> set[str]:
        """Take drains back."""
        back = await self._comm.fleet_recall(
            instances=[list(names) for names in instances]
        )
        return set(back)

    async def turn_away(self, workers: Names) -> None:
        """Tell workers to exit, and see them off."""
        await self._comm.fleet_send_away(workers=list(workers), limit=FAREWELL)

    async def drop(
        self, workers: Names, logs_of: Names
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Let go of workers at once; return what was lost, and their logs."""
        answer = await self._comm.fleet_drop(
            workers=list(workers), logs_of=list(logs_of)
        )
        return answer["lost"], answer["logs"]


class PlainLink(_Link):
    """Speaks with a scheduler that has nothing of ours.

    It knows no drain: tasks that run on a worker which leaves are run again.
    """

    recallable = False

    async def _logs_in_time(self, workers: Names) -> dict[str, str]:
        """Fetch what workers have logged, by name; nothing if it takes too long."""
        known = {address: name for name, address in self._addresses().items()}
        asked = self._addresses_of(workers)
        if not asked:
            return {}
        try:
            call = self._comm.worker_logs(workers=asked)
            logs = await asyncio.wait_for(call, LOG_LIMIT)
        except (OSError, asyncio.TimeoutError) as error:
            logger.info("the logs of %s could not be kept: %s", workers, error)
            return {}
        return {known[a]: joined(lines) for a, lines in logs.items() if a in known}

    async def adaptive_target(self, question: TargetQuestion) -> TargetAnswer:
        """Ask the scheduler's own ``adaptive_target``."""
        number = await self._comm.adaptive_target(target_duration=question.duration)
        return TargetAnswer(number)

    async def await_work(self, known: int) -> int:
        """Wait for ever: this scheduler does not tell."""
        await asyncio.get_running_loop().create_future()
        return known

    async def rank(
        self, instances: Sequence[Names], surplus: int, how: Leaving
    ) -> Ranking:
        """Ask the scheduler's own ``workers_to_close``.

        It counts all workers it sees; those that may not leave are passed over later,
        so as many more are asked for.
        """
        may_leave = sum(len(names) for names in instances)
        others = len(self._addresses()) - may_leave
        key = pickle.dumps(how.worker_key) if how.worker_key is not None else None
        names = await self._comm.workers_to_close(
            n=surplus + max(0, others), key=key, attribute="name"
        )
        return Ranking([str(name) for name in names])

    async def leave(
        self,
        instances: Sequence[Names],
        how: Leaving,
        timeout: float | None,
        logs_of: Names,
    ) -> Ended:
        """Move the only copies of results away, by the scheduler's own means."""
        logs = await self._logs_in_time(logs_of)
        asked = self._addresses_of([name for names in instances for name in names])
        retired: Mapping[str, object] = {}
        if asked:
            retired = await self._comm.retire_workers(
                workers=asked, close_workers=False, remove=False
            )
        kept = set(asked) - set(retired)
        why = {
            names[0]: NOBODY if kept.intersection(self._addresses_of(names)) else ""
            for names in instances
        }
        return Ended(why, logs)

    async def recall(self, instances: Sequence[Names]) -> set[str]:
        """Take nothing back: it cannot be done."""
        return set()

    async def turn_away(self, workers: Names) -> None:
        """Let the scheduler send workers away and forget them."""
        await asyncio.gather(
            *(
                self._comm.unregister(address=address, stimulus_id="fleet-turn-away")
                for address in self._addresses_of(workers)
            )
        )

    async def drop(
        self, workers: Names, logs_of: Names
    ) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Let go of workers at once. What was lost, nobody counts."""
        logs = await self._logs_in_time(logs_of)
        await self.turn_away(workers)
        return {}, logs


async def link_to(
    scheduler: Scheduler | None,
    comm: rpc,
    addresses: Callable[[], Mapping[str, str]],
) -> tuple[SchedulerLink, str]:
    """Install our plugin in the scheduler, if it lets us.

    Parameters
    ----------
    scheduler
        The scheduler, if it runs in this process.
    comm
        The connection to it.
    addresses
        Gives the address of each worker that it sees, by name.

    Returns
    -------
    tuple
        The link, and why it is only the plain one; empty if it is not.
    """
    try:
        if scheduler is not None:
            await scheduler.register_scheduler_plugin(FleetPlugin(), idempotent=True)
        else:
            await comm.register_scheduler_plugin(
                plugin=pickle.dumps(FleetPlugin()), name=PLUGIN_NAME, idempotent=True
            )
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        return PlainLink(comm, addresses), f"{type(error).__name__}: {error}"
    return PluginLink(comm, addresses), ""
