"""What a run cost: worker-seconds, the peak, the decisions."""

from __future__ import annotations

from collections.abc import Sequence


class Ledger:
    """Adds up what a series of looks at a cluster saw.

    The number of workers counts as it was from one look to the next.

    Examples
    --------
    >>> ledger = Ledger()
    >>> for now, observed in [(0.0, 0), (1.0, 4), (3.5, 1), (4.0, 0)]:
    ...     ledger.note(now, observed)
    >>> ledger.peak, ledger.worker_seconds, ledger.seconds
    (4, 10.5, 4.0)
    """

    def __init__(self) -> None:
        self.peak = 0
        self.worker_seconds = 0.0
        self.decisions = 0
        self._first: float | None = None
        self._last: tuple[float, int] | None = None
        self._newest: object = None

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
            self.worker_seconds += workers * (now - before)
        self.peak = max(self.peak, observed)
        self._last = (now, observed)

    def count(self, events: Sequence[object]) -> None:
        """Count the events that were not there the last time.

        The sequence is bounded, so old ones may have gone from its front.
        """
        for event in reversed(events):
            if event is self._newest:
                break
            self.decisions += 1
        if events:
            self._newest = events[-1]
