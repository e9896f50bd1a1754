"""What a run cost: worker-seconds, the peak, the decisions."""

from __future__ import annotations

from collections.abc import Sequence

from dask_fleet.core import Cause
from dask_fleet.core.events import Event

#: What is decided: starts and ends of workers. The history has more, such as what a
#: limit held back and what happened by itself.
DECISIONS = frozenset({Cause.STARTING, Cause.WITHDRAWN, Cause.DRAINING, Cause.RECALLED})


class Ledger:
    """Adds up what a series of looks at a cluster saw.

    Between two looks a change is taken to have come in the middle, so that the errors
    of many changes even out.

    Examples
    --------
    >>> ledger = Ledger()
    >>> for now, observed in [(0.0, 0), (1.0, 4), (3.5, 1), (4.0, 0)]:
    ...     ledger.note(now, observed)
    >>> ledger.peak, ledger.worker_seconds, ledger.seconds
    (4, 8.5, 4.0)
    """

    def __init__(self) -> None:
        self.peak = 0
        self.worker_seconds = 0.0
        self.decisions = 0
        self._first: float | None = None
        self._last: tuple[float, int] | None = None
        self._newest: Event | None = None

    @property
    def seconds(self) -> float:
        """Time from the first look to the last."""
        if self._first is None or self._last is None:
            return 0.0
        return self._last[0] - self._first

    def note(self, now: float, observed: int) -> None:
        """Note how many workers are there at ``now`` (seconds, never going back)."""
        if self._last is None:
            self._first = now
        else:
            before, workers = self._last
            self.worker_seconds += (workers + observed) / 2 * (now - before)
        self.peak = max(self.peak, observed)
        self._last = (now, observed)

    def count(self, events: Sequence[Event]) -> None:
        """Count the decisions among the events that were not there the last time.

        The sequence is bounded, so old ones may have gone from its front.
        """
        for event in reversed(events):
            if event is self._newest:
                break
            self.decisions += event.cause in DECISIONS
        if events:
            self._newest = events[-1]
