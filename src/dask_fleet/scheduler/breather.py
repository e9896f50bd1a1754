"""Long work in the scheduler's event loop, a slice at a time."""

from __future__ import annotations

import asyncio
from time import perf_counter

#: The event loop is given back after so many seconds of work.
SLICE = 0.01

#: So many keys are looked at between two looks at the clock.
STRIDE = 2000


class Breather:
    """Gives the event loop back whenever a slice of time is used up."""

    def __init__(self, length: float = SLICE) -> None:
        self._length = length
        self._end = perf_counter() + length

    async def breathe(self) -> None:
        """Give the loop a turn, if it is time."""
        if perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = perf_counter() + self._length
