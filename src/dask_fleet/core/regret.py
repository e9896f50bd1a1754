"""Learning from one's own haste: workers that were missed right after they had left.

Work often comes in bursts. If the pause between two of them is a little longer than
the calm window, every pause costs a full round of stops and starts. So when a cluster
has to grow again soon after it has shrunk, the shrinking was a mistake, and the next
pause is waited for a little longer than the one that was misjudged. A pause that turns
out to be longer even so ends the special treatment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: To grow again within so many calm windows after a shrink is to regret it.
HORIZON = 10.0

#: The next pause may be so much longer than the one that was misjudged.
MARGIN = 1.25

#: The window never grows beyond so many calm windows.
LONGEST = 4.0


@dataclass(frozen=True, slots=True)
class Regret:
    """What is remembered of the last shrink, and the patience that came of it.

    Parameters
    ----------
    fell_at
        When the demand fell that led to the last shrink (seconds).
    left_at
        When workers left then; ``None`` if that was not followed by growth soon enough
        to matter, or there was none.
    keep
        Seconds for which the next pause is waited for, at least; 0 for no more than
        the calm window.

    Examples
    --------
    Work ends at 10 s; with a calm window of 3 s the workers leave at 13 s; at 16 s they
    are missed. From then on a pause of 7.5 s is waited for.

    >>> regret = Regret().shrank(fell_at=10.0, now=13.0).grew(now=16.0, calm=3.0)
    >>> regret.keep
    7.5
    >>> regret.shrank(fell_at=50.0, now=57.5).keep
    0.0
    """

    fell_at: float = 0.0
    left_at: float | None = None
    keep: float = 0.0

    def shrank(self, fell_at: float, now: float) -> Regret:
        """Return what is remembered after workers have left.

        Parameters
        ----------
        fell_at
            Since when they were not wanted any more (seconds).
        now
            Seconds.
        """
        return Regret(fell_at, now)

    def grew(self, now: float, calm: float) -> Regret:
        """Return what is remembered after workers were wanted again.

        Parameters
        ----------
        now
            Seconds.
        calm
            The calm window, in seconds.
        """
        if self.left_at is None:
            return self
        if now - self.left_at > HORIZON * calm:
            return Regret()
        gap = now - self.fell_at
        return replace(self, left_at=None, keep=min(MARGIN * gap, LONGEST * calm))
