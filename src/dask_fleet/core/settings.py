"""Numbers that a decision depends on, frozen for the time of the decision."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each in-between state may last, in seconds, and what then.

    Parameters
    ----------
    start_warn
        *Requested* for longer: the user is told once.
    start_fail
        *Requested* for longer: the start has failed and is released. ``inf`` where
        waiting is normal, as in a batch queue.
    lost
        *Lost* for longer: given up, released and replaced.
    leave
        *Leaving* for longer: released again, with doubling pauses.
    ask_again
        A refused retirement or a failed ranking is tried again after this time. While
        the fleet is closing it takes the place of ``leave``.
    refused
        For so long an instance that the scheduler refused to let go stands behind the
        others, so that one that has to stay does not keep those that may go.
    """

    start_warn: float = 30.0
    start_fail: float = 120.0
    lost: float = 15.0
    leave: float = 10.0
    ask_again: float = 1.0
    refused: float = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """What follows from failed starts.

    Parameters
    ----------
    first_pause
        Seconds before the first retry; doubles with each further strike.
    longest_pause
        Seconds; also the rest after which an open breaker allows one try.
    strikes_before_arrival, strikes
        The breaker opens after so many failed rounds in a row without any arrival, or
        so many failed rounds of either kind (before or soon after arrival).
    infancy
        A worker that dies within so many seconds of its arrival has failed at birth;
        one that lives longer wipes the slate clean.
    proof
        Seconds after its arrival from when a worker counts as a reason to start more.
        One that ends before has failed at birth whatever its ending is called.
    """

    first_pause: float = 1.0
    longest_pause: float = 600.0
    strikes_before_arrival: int = 3
    strikes: int = 5
    infancy: float = 10.0
    proof: float = 1.0


@dataclass(frozen=True, slots=True)
class Growth:
    """At most ``max(at_least, factor * present)`` new workers in ``period`` seconds.

    Parameters
    ----------
    at_least
        Workers that may always be started in one period.
    factor
        Share of the present workers that may be added; 1 doubles.
    period
        Seconds.
    """

    at_least: int = 10
    factor: float = 1.0
    period: float = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What the limiters hold the target to.

    Parameters
    ----------
    minimum, maximum
        Workers.
    quota
        Workers that the resource manager allows; ``None`` if it names none.
    quota_detail
        Its own words.
    growth
        ``None``: no limit of growth.
    shrink_budget
        Workers that may drain at the same time; a whole instance always may.
    calm
        Seconds for which the target must have been lower before anything is closed.
    """

    minimum: int = 0
    maximum: float = math.inf
    quota: int | None = None
    quota_detail: str = ""
    growth: Growth | None = None
    shrink_budget: float = math.inf
    calm: float = 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them together."""

    workers_per_instance: int = 1
    deadlines: Deadlines = field(default_factory=Deadlines)
    patience: Patience = field(default_factory=Patience)
