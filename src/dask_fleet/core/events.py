"""What was decided and what happened, when and why: bounded, newest last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from dask_fleet.core.causes import Cause, Figure, Reason

#: Causes that describe a standing condition. They are noted when they begin or their
#: figures change, not each time that a decision meets them again.
STANDING = frozenset(
    {
        Cause.CAPPED,
        Cause.RAISED,
        Cause.QUOTA,
        Cause.GROWTH,
        Cause.SHRINK,
        Cause.CALM,
        Cause.PAUSE,
        Cause.BREAKER,
        Cause.HELD,
        Cause.WAITING_FOR_SCHEDULER,
        Cause.FOREIGN,
    }
)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the history.

    Parameters
    ----------
    time
        Seconds since the epoch.
    cause
        Why.
    before, after
        Workers that should exist before and after it; equal where it changed nothing.
    workers
        Names of the workers it speaks of, possibly none.
    by
        What had set the target in force: ``Cause.SCALED`` or ``Cause.ADAPTED``.
    sentence
        The whole of it in words.
    figures
        The numbers in the sentence.
    """

    time: float
    cause: Cause
    before: int
    after: int
    workers: tuple[str, ...]
    by: Cause
    sentence: str
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.time, timezone.utc)
        names = f" [{', '.join(self.workers[:8])}" if self.workers else ""
        if names:
            names += ", …]" if len(self.workers) > 8 else "]"
        return f"{moment:%H:%M:%S}Z {self.sentence}{names}"


class EventLog:
    """The history of one fleet.

    Parameters
    ----------
    length
        How many events are kept.
    epoch
        What to add to the snapshot's clock to get seconds since the epoch.

    Examples
    --------
    >>> log = EventLog()
    >>> capped = Reason(Cause.CAPPED, figures={"wanted": 40, "limit": 16})
    >>> for _ in range(3):
    ...     _ = log.note([capped], now=1.0, before=16, after=16, by=Cause.ADAPTED)
    >>> [str(event) for event in log]
    ['00:00:01Z capped by the maximum: wanted 40, limit 16']
    """

    def __init__(self, length: int = 1000, epoch: float = 0.0) -> None:
        self._events: deque[Event] = deque(maxlen=length)
        self._epoch = epoch
        #: The standing conditions of the last decision, by cause.
        self._standing: dict[Cause, Reason] = {}

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def note(
        self,
        reasons: Iterable[Reason],
        *,
        now: float,
        before: int,
        after: int,
        by: Cause,
        whole: bool = True,
    ) -> list[Event]:
        """Note reasons; return the events that are new.

        Parameters
        ----------
        reasons
            In order.
        now
            Seconds of the snapshot's clock.
        before, after
            Workers that should exist.
        by
            What had set the target.
        whole
            The reasons are those of a whole decision: a standing condition that is not
            among them is over.
        """
        new = []
        standing: dict[Cause, Reason] = {}
        for reason in reasons:
            if reason.cause in STANDING:
                standing[reason.cause] = reason
                if self._standing.get(reason.cause) == reason:
                    continue
            new.append(
                Event(
                    time=now + self._epoch,
                    cause=reason.cause,
                    before=before,
                    after=after,
                    workers=reason.workers,
                    by=by,
                    sentence=reason.sentence,
                    figures=dict(reason.figures),
                )
            )
        if whole:
            self._standing = standing
        self._events.extend(new)
        return new

    @property
    def standing(self) -> tuple[Reason, ...]:
        """The conditions that hold now."""
        return tuple(self._standing.values())
