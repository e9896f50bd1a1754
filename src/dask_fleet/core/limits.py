"""The stack of limiters that a target passes on its way to what is allowed now.

In this order, each working on what the one before it let through:

1. *bounds*: the minimum and maximum, in whole instances; the maximum wins, but what
   allows a worker allows an instance.
2. *quota*: what the resource manager allows in all, in whole instances.
3. *growth*: how many may be added in one period.
4. *shrink budget*: how many arrived ones may drain at the same time.
5. *calm window*: nothing is closed before the target was lower for so many seconds;
   the reference is the highest target of that time, seeded with the size that the
   cluster had when the window was set up.
6. *breaker*: nothing is added in the pause after failed starts, and little right
   after it. Once the breaker is open the pauses are long.

Bounds and quota say what should exist in the end; the other four only say how far to
go now, and when to look again. Growth and breaker speak of what is asked for: what is
planned and was not asked for yet is not there for them, and is given up where they do
not allow it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dask_fleet.core.causes import Cause, Reason, because
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """The sums that limiters work from, in workers.

    Parameters
    ----------
    facts
        What the sums were made from.
    failures
        The memory of failed starts, as of now.
    present
        Planned, requested, arrived or lost.
    unasked
        Those of them that were not asked for yet.
    arrived
        Those of them that have arrived.
    draining
        Not present any more, and still at work.
    unproven, proven
        Asked-for ones of rounds after the last failure, without and with proof.
    proof_at
        When the next of the unproven will have proved itself; ``None`` if none has
        arrived.
    """

    facts: Snapshot
    failures: FailureMemory
    present: int = 0
    unasked: int = 0
    arrived: int = 0
    draining: int = 0
    unproven: int = 0
    proven: int = 0
    proof_at: float | None = None

    @property
    def asked(self) -> int:
        """Present ones that were asked for."""
        return self.present - self.unasked

    @property
    def step(self) -> int:
        """Workers that come and go together."""
        return self.facts.settings.workers_per_instance


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a limiter lets through, its reason if it changed it, when to look again."""

    workers: int
    reason: Reason | None = None
    wake_at: float | None = None


def bounds(wanted: int, s: Standing) -> Verdict:
    """Hold the target between minimum and maximum."""
    low, high = s.facts.limits.minimum, s.facts.limits.maximum
    if high < math.inf:
        capped = int(high) // s.step * s.step
        if high >= 1:
            capped = max(capped, s.step)
        if wanted > capped:
            return Verdict(capped, because(Cause.CAPPED, wanted=wanted, limit=capped))
        low = min(low, capped)
    if wanted < low:
        return Verdict(low, because(Cause.RAISED, wanted=wanted, limit=low))
    return Verdict(wanted)


def quota(wanted: int, s: Standing) -> Verdict:
    """Hold the target to what the resource manager allows."""
    limit = s.facts.limits.quota
    if limit is None or wanted <= limit // s.step * s.step:
        return Verdict(wanted)
    limit = limit // s.step * s.step
    detail = s.facts.limits.quota_detail
    return Verdict(
        limit, because(Cause.QUOTA, wanted=wanted, limit=limit, detail=detail)
    )


def growth(wanted: int, s: Standing) -> Verdict:
    """Add at most so many in one period."""
    rate = s.facts.limits.growth
    if rate is None or wanted <= s.asked:
        return Verdict(wanted)
    recent = [one for one in s.facts.started if s.facts.now < one.at + rate.period]
    used = sum(one.workers for one in recent)
    budget = max(rate.at_least, int(rate.factor * max(0, s.asked - used)))
    allowed = min(wanted, s.asked + max(0, budget - used))
    if allowed == wanted:
        return Verdict(wanted)
    wake_at = recent[0].at + rate.period if recent else s.facts.now + rate.period
    reason = because(Cause.GROWTH, wanted=wanted, allowed=allowed)
    return Verdict(allowed, reason, wake_at)


def shrink_budget(wanted: int, s: Standing) -> Verdict:
    """Let at most so many drain at the same time; others go before them.

    There is no time to look again: one of those that drain will wake us.
    """
    room = s.facts.limits.shrink_budget - s.draining
    if not s.draining:
        room = max(room, s.step)
    if s.arrived - wanted <= room:
        return Verdict(wanted)
    allowed = s.arrived - max(0, int(room))
    return Verdict(allowed, because(Cause.SHRINK, wanted=wanted, allowed=allowed))


def calm_window(wanted: int, s: Standing) -> Verdict:
    """Close nothing that was wanted within the last ``calm`` seconds.

    Or a little longer, if workers were missed after they had left (``regret.py``).
    """
    window = max(s.facts.limits.calm, s.facts.keep)
    if s.present - wanted < s.step or not window:
        return Verdict(wanted)  # nothing would leave anyhow
    recent = [
        one
        for one in s.facts.wanted
        if one.workers > wanted and one.until + window > s.facts.now
    ]
    if not recent:
        return Verdict(wanted)
    # Bounds bind here, too: a lower maximum does not wait for calm.
    most = min(s.present, max(one.workers for one in recent), s.facts.limits.maximum)
    allowed = max(wanted, int(most))
    reason = because(Cause.CALM, wanted=wanted, allowed=allowed, window=window)
    return Verdict(allowed, reason, min(one.until for one in recent) + window)


def breaker(wanted: int, s: Standing) -> Verdict:
    """Add nothing in a pause after failures, and little right after it."""
    memory, now = s.failures, s.facts.now
    if wanted <= s.asked or not memory.strikes:
        return Verdict(wanted)
    pausing = now < memory.pause_until
    room = 0 if pausing else max(0, max(s.proven, s.step) - s.unproven)
    allowed = min(wanted, s.asked + room)
    if allowed == wanted:
        return Verdict(wanted)
    opened = memory.is_open(s.facts.settings.patience)
    reason = because(
        Cause.BREAKER if opened else Cause.PAUSE,
        strikes=memory.strikes,
        pause=memory.pause,
        detail=str(memory.last),
    )
    return Verdict(allowed, reason, memory.pause_until if pausing else s.proof_at)


Limiter = Callable[[int, Standing], Verdict]

#: In the order of the module's text.
STACK: tuple[Limiter, ...] = (
    bounds,
    quota,
    growth,
    shrink_budget,
    calm_window,
    breaker,
)


def limit(wanted: int, s: Standing) -> tuple[int, tuple[Reason, ...], float | None]:
    """Send a target through the whole stack.

    Parameters
    ----------
    wanted
        Workers.
    s
        The sums to work from.

    Returns
    -------
    tuple
        Workers that are allowed now, the reasons of those limiters that changed the
        number, and when (seconds) time alone would change it; ``None`` for never.
    """
    reasons = []
    wake_at: float | None = None
    for limiter in STACK:
        verdict = limiter(wanted, s)
        wanted = verdict.workers
        if verdict.reason is not None:
            reasons.append(verdict.reason)
        wake_at = earliest(wake_at, verdict.wake_at)
    return wanted, tuple(reasons), wake_at


def earliest(*times: float | None) -> float | None:
    """Return the earliest of some times; ``None`` stands for never.

    Examples
    --------
    >>> earliest(None, 3.0, 2.0)
    2.0
    """
    known = [one for one in times if one is not None]
    return min(known) if known else None
