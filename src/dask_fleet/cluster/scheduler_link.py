"""The only place that speaks with the scheduler about workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from distributed.core import rpc
from distributed.protocol import pickle


class SchedulerLink:
    """Asks the scheduler who should leave, and lets workers go through it.

    Parameters
    ----------
    comm
        Gives the connection to the scheduler.
    addresses
        Gives the address of each worker that the scheduler sees, by name.
    """

    def __init__(
        self,
        comm: Callable[[], rpc],
        addresses: Callable[[], Mapping[str, str]],
    ) -> None:
        self._comm = comm
        self._addresses = addresses
        #: Groups workers that must leave together; see ``adapt(worker_key=)``.
        self.worker_key: Callable[[Any], Hashable] | None = None

    def _addresses_of(self, workers: Sequence[str]) -> list[str]:
        known = self._addresses()
        return [known[name] for name in workers if name in known]

    async def adaptive_target(self, target_duration: float) -> int:
        """Ask for how many workers there is work.

        Parameters
        ----------
        target_duration
            Seconds that a computation should take.
        """
        number: int = await self._comm().adaptive_target(
            target_duration=target_duration
        )
        return number

    async def workers_to_close(self, surplus: int) -> list[str]:
        """Ask which workers can go with the least harm.

        Parameters
        ----------
        surplus
            How many, of all that the scheduler sees.

        Returns
        -------
        list of str
            Names, cheapest first.
        """
        key = pickle.dumps(self.worker_key) if self.worker_key else None
        names = await self._comm().workers_to_close(
            n=surplus, key=key, attribute="name"
        )
        return [str(name) for name in names]

    async def retire(self, workers: Sequence[str]) -> dict[str, str]:
        """Move the only copies of results away from workers.

        They get no new task and stay with the scheduler until they are released.

        Parameters
        ----------
        workers
            Names.

        Returns
        -------
        dict
            The names that could not be retired, and why; they work on.
        """
        asked = self._addresses_of(workers)
        if not asked:
            return {}
        retired = await self._comm().retire_workers(
            workers=asked, close_workers=False, remove=False
        )
        kept = set(asked) - set(retired)
        return {
            name: "nobody else can take the only copies of its results"
            for name, address in self._addresses().items()
            if address in kept
        }

    async def recall(self, workers: Sequence[str]) -> set[str]:
        """Take drains back. The scheduler's own retirement cannot be taken back."""
        return set()

    async def turn_away(self, workers: Sequence[str]) -> None:
        """Let the scheduler send workers away and forget them."""
        comm = self._comm()
        await asyncio.gather(
            *(
                comm.unregister(address=address, stimulus_id="fleet-turn-away")
                for address in self._addresses_of(workers)
            )
        )

    async def logs(self, workers: Sequence[str]) -> dict[str, str]:
        """Fetch what workers have logged, by name."""
        known = {address: name for name, address in self._addresses().items()}
        asked = self._addresses_of(workers)
        if not asked:
            return {}
        logs = await self._comm().worker_logs(workers=asked)
        return {
            known[address]: "\n".join(line for _, line in lines)
            for address, lines in logs.items()
            if address in known
        }
