"""Tell workers to exit, and see them off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from distributed import Scheduler, SchedulerPlugin

from dask_fleet.scheduler.survey import find


class _Farewell(SchedulerPlugin):
    """Waits for some workers to go; installed only as long as that takes."""

    def __init__(self, addresses: set[str]) -> None:
        self.name = f"fleet-farewell-{id(self):x}"
        self._left = addresses
        self.all_gone = asyncio.Event()

    def remove_worker(self, scheduler: Scheduler, worker: str, **kwargs: Any) -> None:
        """A worker has gone."""
        self._left.discard(worker)
        if not self._left:
            self.all_gone.set()


async def send_away(scheduler: Scheduler, workers: Sequence[str], limit: float) -> None:
    """Tell workers to exit; forget those that do not go in time.

    A worker that is told ends its work in order and says goodbye itself. To forget it
    at once would cut its streams off in the middle.

    Parameters
    ----------
    scheduler
        The scheduler.
    workers
        Names; unknown ones are passed over.
    limit
        Seconds to wait for them.
    """
    found = [find(scheduler, name) for name in workers]
    addresses = {ws.address for ws in found if ws is not None}
    if not addresses:
        return
    farewell = _Farewell(set(addresses))
    scheduler.add_plugin(farewell, name=farewell.name)
    try:
        for address in addresses:
            scheduler.close_worker(address)
        await asyncio.wait_for(farewell.all_gone.wait(), limit)
    except asyncio.TimeoutError:
        for address in addresses & scheduler.workers.keys():
            await scheduler.remove_worker(
                address, stimulus_id="fleet-send-away", expected=True
            )
    finally:
        scheduler.remove_plugin(name=farewell.name)
