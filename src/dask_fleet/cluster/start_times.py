"""How long workers usually take to start here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

#: The last so many arrivals are remembered.
LENGTH = 15


class StartTimes:
    """Measures the time from asking for a worker to its arrival.

    Examples
    --------
    >>> times = StartTimes()
    >>> times.asked(["0"], now=1.0)
    >>> times.arrived(["0"], now=1.5)
    >>> times.typical
    0.5
    """

    def __init__(self) -> None:
        #: When workers that have not arrived yet were asked for.
        self._asked: dict[str, float] = {}
        self._taken: deque[float] = deque(maxlen=LENGTH)

    def asked(self, workers: Iterable[str], now: float) -> None:
        """Workers were asked for at ``now`` (seconds)."""
        self._asked.update(dict.fromkeys(workers, now))

    def arrived(self, workers: Iterable[str], now: float) -> None:
        """Workers have arrived at ``now`` (seconds)."""
        for name in workers:
            asked = self._asked.pop(name, None)
            if asked is not None:
                self._taken.append(now - asked)

    def forget(self, workers: Iterable[str]) -> None:
        """Workers will not arrive."""
        for name in workers:
            self._asked.pop(name, None)

    @property
    def typical(self) -> float | None:
        """The median of the last ones, in seconds; ``None`` if there are none."""
        return median(self._taken) if self._taken else None
