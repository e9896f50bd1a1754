"""Tell the scheduler's event log what the cluster has decided."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from distributed.core import rpc

from dask_fleet.cluster.arguments import described
from dask_fleet.core import Event

logger = logging.getLogger(__name__)

#: The topic under which the scheduler keeps them.
TOPIC = "fleet"


class Teller:
    """Sends events to the scheduler, in order, without anybody waiting for it.

    Parameters
    ----------
    comm
        The connection to the scheduler.
    """

    def __init__(self, comm: rpc) -> None:
        self._comm = comm
        #: Events that were not sent yet, oldest first.
        self._waiting: list[Event] = []
        #: At work while there is something to send; nothing is done at rest.
        self._task: asyncio.Task[None] | None = None

    def tell(self, events: Sequence[Event]) -> None:
        """Send events soon. Only from the event loop."""
        self._waiting.extend(events)
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._send(), name="fleet teller")

    async def _send(self) -> None:
        while self._waiting:
            events, self._waiting = self._waiting, []
            try:
                for event in events:
                    await self._comm.log_event(topic=TOPIC, msg=_message(event))
            except OSError as error:
                # The cluster's own history has them; the stream tells if it is serious.
                logger.debug("events not told: %s", described(error))

    async def close(self) -> None:
        """Stop telling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _message(event: Event) -> dict[str, object]:
    return {
        "cause": str(event.cause),
        "by": str(event.by),
        "before": event.before,
        "after": event.after,
        "workers": list(event.workers),
        "sentence": event.sentence,
        "figures": dict(event.figures),
    }
