"""Why: a closed set of causes, each with a ready sentence and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

#: What a figure in a sentence may be.
Figure = int | float | str | None


class Cause(str, Enum):
    """Why something was decided, or was not done.

    Each member's ``template`` is the sentence that a user reads; the names in braces
    are the figures that come with it.
    """

    # The target.
    SCALED = "scaled"
    DISMISSED = "dismissed"
    ADAPTED = "adapted"
    IMPOSSIBLE = "impossible tasks"
    ADAPT_STARTED = "adapt started"
    ADAPT_STOPPED = "adapt stopped"
    MAXIMUM_ASSUMED = "maximum assumed"
    TARGET_FAILED = "target failed"
    TARGET_BACK = "target back"
    # The limiters.
    CAPPED = "capped by maximum"
    RAISED = "raised to minimum"
    QUOTA = "quota"
    GROWTH = "growth rate"
    SHRINK = "shrink budget"
    CALM = "calm window"
    PAUSE = "pause after failures"
    BREAKER = "breaker"
    # What is being done.
    STARTING = "starting"
    WITHDRAWN = "withdrawn"
    DRAINING = "draining"
    RECALLED = "recalled"
    RETIRED = "retired"
    HELD = "held"
    DROPPED = "dropped"
    WAITING_FOR_SCHEDULER = "scheduler silent"
    # What happened.
    ARRIVED = "arrived"
    START_FAILED = "start failed"
    DIED = "died"
    EXPIRED = "expired"
    LOST = "lost"
    RETURNED = "returned"
    LATE = "late"
    STUCK = "stuck"
    FOREIGN = "foreign"
    TURNED_AWAY = "turned away"
    CALL_FAILED = "call failed"
    RECONNECTED = "reconnected"
    PLAIN_SCHEDULER = "plain scheduler"
    FAILED = "cluster failed"
    CLOSED = "closed"

    def __str__(self) -> str:
        return self.value

    @property
    def template(self) -> str:
        """The sentence, with its figures in braces."""
        return _SENTENCES[self]


_SENTENCES: dict[Cause, str] = {
    Cause.SCALED: "scale({after}) was called: {before} -> {after} workers",
    Cause.DISMISSED: (
        "{count} worker(s) were chosen to leave: {before} -> {after} workers"
    ),
    Cause.ADAPTED: (
        "the adaptive target went from {before} to {after} workers ({detail})"
    ),
    Cause.IMPOSSIBLE: "some tasks cannot run on any worker of this cluster: {detail}",
    Cause.ADAPT_STARTED: (
        "adaptive scaling between {minimum} and {maximum} workers, "
        "every {interval:g} s, calm window {calm:g} s"
    ),
    Cause.ADAPT_STOPPED: "adaptive scaling ended: {detail}",
    Cause.MAXIMUM_ASSUMED: (
        "no maximum was given: at most {maximum} workers ({detail}); "
        "give adapt(maximum=...) for more"
    ),
    Cause.TARGET_FAILED: (
        "the adaptive target could not be used, the last good one ({after}) stays: "
        "{detail}"
    ),
    Cause.TARGET_BACK: "the adaptive target is good again",
    Cause.CAPPED: "capped by the maximum: wanted {wanted}, limit {limit}",
    Cause.RAISED: "raised to the minimum: wanted {wanted}, limit {limit}",
    Cause.QUOTA: "capped by the quota: wanted {wanted}, limit {limit} ({detail})",
    Cause.GROWTH: "growing in steps: {allowed} of {wanted} now",
    Cause.SHRINK: "shrinking in steps: {allowed} now, {wanted} wanted",
    Cause.CALM: (
        "calm window: {wanted} wanted, {allowed} stay until {window:g} s were calm"
    ),
    Cause.PAUSE: (
        "pause of {pause:g} s after {strikes} failed round(s) of starts; last: {detail}"
    ),
    Cause.BREAKER: (
        "no more starts after {strikes} failed rounds until scale or adapt is called "
        "or {pause:g} s have passed; last: {detail}"
    ),
    Cause.STARTING: "asked for {count} worker(s)",
    Cause.WITHDRAWN: "withdrew {count} worker(s) that had not arrived",
    Cause.DRAINING: "asked {count} worker(s) to finish and leave",
    Cause.RECALLED: "took back {count} worker(s) that were about to leave",
    Cause.RETIRED: "{count} worker(s) left as asked",
    Cause.HELD: "held: {count} worker(s) above the target stay: {detail}",
    Cause.DROPPED: (
        "let go of {count} worker(s) by force; lost: {keys} key(s) with {size} that "
        "only they held, {tasks} running task(s)"
    ),
    Cause.WAITING_FOR_SCHEDULER: (
        "the scheduler does not answer: nothing is judged lost and no worker is closed"
    ),
    Cause.ARRIVED: "{count} worker(s) arrived",
    Cause.START_FAILED: "{count} worker(s) could not be started ({kind}): {detail}",
    Cause.DIED: "{count} worker(s) died ({kind}): {detail}",
    Cause.EXPIRED: "{count} worker(s) reached their end ({kind}): {detail}",
    Cause.LOST: "{count} worker(s) disappeared; {seconds:g} s to come back",
    Cause.RETURNED: "{count} worker(s) that had disappeared are back",
    Cause.LATE: "asked for {seconds:.0f} s ago and not here yet{detail}",
    Cause.STUCK: "told to leave {tries} time(s) and not gone yet: {detail}",
    Cause.FOREIGN: "{count} worker(s) that this cluster did not start",
    Cause.TURNED_AWAY: "turned away {count} worker(s) that came back after their end",
    Cause.CALL_FAILED: "{call} failed: {detail}",
    Cause.RECONNECTED: "the connection to the scheduler broke and was made again",
    Cause.PLAIN_SCHEDULER: (
        "the scheduler takes no plugin, its own means are used: workers that leave do "
        "not finish their tasks first ({detail})"
    ),
    Cause.FAILED: "the cluster has failed: {detail}",
    Cause.CLOSED: "closed",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A cause with its figures and the workers it speaks of.

    Parameters
    ----------
    cause
        Which of the closed set.
    workers
        Names, possibly none.
    figures
        Values for the braces of the cause's sentence.

    Examples
    --------
    >>> print(Reason(Cause.CAPPED, figures={"wanted": 40, "limit": 16}))
    capped by the maximum: wanted 40, limit 16
    """

    cause: Cause
    workers: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The sentence that a user reads."""
        return self.cause.template.format(**self.figures)

    def __str__(self) -> str:
        return self.sentence


def because(cause: Cause, *workers: str, **figures: Figure) -> Reason:
    """Make a reason.

    Examples
    --------
    >>> print(because(Cause.STARTING, "7", "8", count=2))
    asked for 2 worker(s)
    """
    return Reason(cause, workers, figures)
