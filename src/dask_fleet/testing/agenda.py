"""A clock that jumps from one happening to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class Agenda:
    """Virtual time, and what will happen in it.

    Parameters
    ----------
    now
        Seconds to begin with.

    Examples
    --------
    >>> agenda = Agenda()
    >>> agenda.after(5.0, lambda: print("five"))
    >>> agenda.after(2.0, lambda: print("two"))
    >>> agenda.next_at
    2.0
    >>> agenda.advance(3.0)
    two
    >>> agenda.now
    3.0
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._numbers = count()
        #: Time, number in the order of noting, what to do.
        self._queue: list[tuple[float, int, Callable[[], object]]] = []

    def after(self, delay: float, action: Callable[[], object]) -> None:
        """Note what will happen in ``delay`` seconds."""
        heapq.heappush(self._queue, (self.now + delay, next(self._numbers), action))

    @property
    def next_at(self) -> float | None:
        """When something happens next; ``None`` if nothing will."""
        return self._queue[0][0] if self._queue else None

    def advance(self, until: float) -> None:
        """Let time pass, and everything happen that is due by then."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = max(self.now, until)

    def __len__(self) -> int:
        return len(self._queue)
