"""Waiting for something to become true without asking again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pulse:
    """Wakes those who wait whenever something may have changed.

    Examples
    --------
    >>> async def main():
    ...     pulse, box = Pulse(), []
    ...     asyncio.get_running_loop().call_soon(lambda: (box.append(1), pulse.beat()))
    ...     await pulse.until(lambda: bool(box))
    ...     return box
    >>> asyncio.run(main())
    [1]
    """

    def __init__(self) -> None:
        #: Those who wait, each with a future of its own loop turn.
        self._waiters: set[asyncio.Future[None]] = set()

    def beat(self) -> None:
        """Something may have changed: let everybody look again."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once ``true()`` holds; what it raises is raised here."""
        while not true():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
