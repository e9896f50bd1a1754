"""The beginning and the end of a cluster, step by step."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from distributed import Scheduler, Security
from distributed.core import Status, rpc

from dask_fleet.cluster.config import configured_seconds
from dask_fleet.cluster.control import Control

logger = logging.getLogger(__name__)

#: Of the time that closing may take, the share for an orderly end.
ORDERLY_SHARE = 0.7


def _is_news_at_the_end(record: logging.LogRecord) -> bool:
    """Whoever closes a cluster knows that its results go with it."""
    return "lose already computed" not in record.getMessage()


class Stage(Protocol):
    """What a cluster's life is about: its hooks for the beginning and the end."""

    security: Security
    status: Status
    scheduler: Scheduler | None
    scheduler_comm: Any

    async def prepare(self) -> None:
        """Get ready for starts."""

    async def start_scheduler(self) -> str:
        """Start the scheduler; return its address."""

    async def clean_up(self, limit: float) -> None:
        """End by force what is left."""

    async def close_scheduler(self) -> None:
        """End the scheduler that was started."""


class Life:
    """Opens and closes one cluster, each once, whoever asks and how often.

    Parameters
    ----------
    stage
        The cluster.
    control
        Its control.
    address
        Of a scheduler that runs elsewhere; ``None`` to start one here.
    waits_for_late
        Workers that were asked for and have not come can only be sent away by the
        scheduler, so closing waits for them a little.
    """

    def __init__(
        self,
        stage: Stage,
        control: Control,
        address: str | None,
        waits_for_late: bool,
    ) -> None:
        self._stage = stage
        self._control = control
        self._address = address
        self._waits_for_late = waits_for_late
        #: Set once closing has begun; done once it is over.
        self._closing: asyncio.Task[None] | None = None
        self._rescue: asyncio.Task[None] | None = None

    async def open(self, info: dict[str, Any]) -> None:
        """Start or find the scheduler, connect, and begin to reconcile.

        Parameters
        ----------
        info
            What the cluster tells of itself; completed by what the scheduler knows.
        """
        stage = self._stage
        preparing = asyncio.ensure_future(stage.prepare())
        # Give it a turn before the scheduler keeps the loop busy.
        await asyncio.sleep(0)
        try:
            address = self._address or await stage.start_scheduler()
            await preparing
        finally:
            preparing.cancel()
        comm = rpc(
            address, connection_args=stage.security.get_connection_args("client")
        )
        stage.scheduler_comm = comm
        await self._control.open(comm, stage.scheduler, self.scheduler_end)
        key = ["cluster-manager-info"]
        info.update(await comm.get_metadata(keys=key, default={}))
        # Told once: it does not change by itself.
        await comm.set_metadata(keys=key, value=dict(info))

    def scheduler_end(self) -> str | None:
        """Say why the scheduler is known to be gone; ``None`` if it is not."""
        scheduler = self._stage.scheduler
        if scheduler is None or scheduler.status in (Status.running, Status.starting):
            return None
        return f"the scheduler has ended (status {scheduler.status.name})"

    def scheduler_gone(self, why: str) -> None:
        """The scheduler is gone for good: the workers are of no use any more."""
        stage = self._stage
        if stage.status is Status.running:
            logger.warning("the cluster has failed: %s", why)
            stage.status = Status.failed
            self._rescue = asyncio.ensure_future(self._let_go())

    async def _let_go(self) -> None:
        self._control.stop_adapting("the cluster has failed")
        limit = configured_seconds("fleet.close-timeout")
        await self._control.empty(limit * ORDERLY_SHARE)
        await self._stage.clean_up(limit)

    async def close(self, limit: float, last: Callable[[], Any]) -> None:
        """Close everything; those who ask again wait for the first to be done.

        Parameters
        ----------
        limit
            Seconds; what has not ended by then is ended by force.
        last
            The last step.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(limit, last))
        await asyncio.shield(self._closing)

    async def _close(self, limit: float, last: Callable[[], Any]) -> None:
        scheduler_log = logging.getLogger("distributed.scheduler")
        scheduler_log.addFilter(_is_news_at_the_end)
        try:
            await self._close_all(limit, last)
        finally:
            scheduler_log.removeFilter(_is_news_at_the_end)

    async def _close_all(self, limit: float, last: Callable[[], Any]) -> None:
        stage, control = self._stage, self._control
        end = time.monotonic() + limit
        stage.status = Status.closing
        control.stop_adapting("the cluster is closed", quiet=True)
        late = control.fleet.requested - control.observed
        if not await control.empty(limit * ORDERLY_SHARE):
            logger.info("some workers did not leave in time; they are ended by force")
        if self._waits_for_late:
            await control.turned_away(late, limit * ORDERLY_SHARE / 2)
        await control.close()
        await stage.clean_up(max(1.0, end - time.monotonic()))
        await self._close_scheduler(max(1.0, end - time.monotonic()))
        await last()

    async def _close_scheduler(self, limit: float) -> None:
        stage = self._stage
        if stage.scheduler is not None:
            try:
                await asyncio.wait_for(stage.close_scheduler(), limit)
            except asyncio.TimeoutError:
                logger.warning("the scheduler did not close within %g s", limit)
        if stage.scheduler_comm is not None:
            await stage.scheduler_comm.close_rpc()
