"""The memory of failed starts: strikes, pauses that double, and the breaker.

A *round* is one batch of starts asked for together. However many instances of a round
fail, it is one strike. A strike makes the pause twice as long, but only once the last
pause is over. After a strike the next rounds are small: one instance as a probe, then
as many as have proved themselves. Where starts were refused, to be accepted is the
proof; where they failed later, to have lived for a moment is. Too many strikes in a row
open the breaker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dask_fleet.core.endings import REFUSALS, Ending, EndingKind
from dask_fleet.core.settings import Patience

#: Pauses are at their longest well before; without it 2.0**strikes overflows one day.
_MOST_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class FailureMemory:
    """What is remembered of failed starts; empty when all is well.

    Parameters
    ----------
    strikes
        Failed rounds in a row; the exponent of the pause.
    counted
        Those of them that count towards the breaker (all but quota).
    early
        Those of ``counted`` that failed before any arrival, in a row.
    round
        The newest round known to have failed. Only later rounds strike again or prove
        that all is well.
    pause, pause_until
        Length and end of the present pause, in seconds.
    last
        The last ending that counted, for the user.
    """

    strikes: int = 0
    counted: int = 0
    early: int = 0
    round: int = 0
    pause: float = 0.0
    pause_until: float = 0.0
    last: Ending | None = None

    @property
    def were_refused(self) -> bool:
        """Whether the last failed start was not even accepted."""
        return self.last is not None and self.last.kind in REFUSALS

    def is_open(self, patience: Patience) -> bool:
        """Whether the breaker is open: no more starts but one after each long pause."""
        return (
            self.early >= patience.strikes_before_arrival
            or self.counted >= patience.strikes
        )

    def struck(
        self,
        ending: Ending,
        round: int,
        now: float,
        patience: Patience,
        *,
        arrived: bool,
    ) -> FailureMemory:
        """Return the memory after one more failed start.

        Parameters
        ----------
        ending
            How it failed.
        round
            The round it belonged to.
        now
            Seconds.
        patience
            Pauses and thresholds.
        arrived
            Whether it failed after its arrival.

        Examples
        --------
        >>> crash, patience = Ending(EndingKind.CRASHED, "exit code 1"), Patience()
        >>> memory = FailureMemory()
        >>> for _ in range(8):  # eight of one round: one strike
        ...     memory = memory.struck(crash, 1, 10.0, patience, arrived=False)
        >>> memory.strikes, memory.pause_until
        (1, 11.0)
        >>> memory.struck(crash, 2, 12.0, patience, arrived=False).pause
        2.0
        """
        newest = max(round, self.round)
        hopeless = ending.kind is EndingKind.MISTAKE and not self.is_open(patience)
        if not hopeless and (round <= self.round or now < self.pause_until):
            return replace(self, round=newest, last=ending)
        counts = ending.kind is not EndingKind.QUOTA
        struck = replace(
            self,
            strikes=self.strikes + 1,
            counted=self.counted + counts,
            early=patience.strikes_before_arrival
            if hopeless
            else self.early + (counts and not arrived),
            round=newest,
            last=ending,
        )
        doubled = 2.0 ** min(self.strikes, _MOST_DOUBLINGS)
        pause = min(patience.first_pause * doubled, patience.longest_pause)
        if struck.is_open(patience):
            pause = patience.longest_pause
        return replace(struck, pause=pause, pause_until=now + pause)

    def arrived(self) -> FailureMemory:
        """Return the memory after a later round brought a worker to the scheduler."""
        return replace(self, early=0) if self.early else self

    def cleared(self) -> FailureMemory:
        """Return the memory after all is well again; the last words are kept."""
        return FailureMemory(round=self.round, last=self.last)
