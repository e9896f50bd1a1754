"""The one decision: what follows from a snapshot."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dask_fleet.core.causes import Reason
from dask_fleet.core.commands import Command
from dask_fleet.core.draft import Draft, names_of
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.growing import grow
from dask_fleet.core.instance import Instance
from dask_fleet.core.limits import Standing, earliest, limit
from dask_fleet.core.observe import observe
from dask_fleet.core.shrinking import drop_broken, forget_answer, shrink
from dask_fleet.core.snapshot import Ranking, Snapshot
from dask_fleet.core.states import State
from dask_fleet.core.survey import Survey, workers_in
from dask_fleet.core.tidying import close, tidy, turn_away


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done now, why, and when to look again.

    Parameters
    ----------
    now
        The time of the snapshot, in seconds.
    target, allowed
        Workers that are wanted, and that the limiters allow to be present now.
    before, after
        Workers present before and after the commands, as the books see it.
    arrived
        Workers present that have arrived.
    commands
        What to do, one call each; they are independent of each other.
    changed
        New versions of instances; those that are over among them.
    reasons
        What happened and what was decided or held back, in order.
    failures, ranking
        What to remember.
    wake_at
        When time alone changes something (seconds); ``None`` for never.
    planned
        How many serials were used.
    leave
        Names of the workers that go for the sake of the target, in order.
    """

    now: float
    target: int
    allowed: int
    before: int
    after: int
    arrived: int
    commands: tuple[Command, ...]
    changed: tuple[Instance, ...]
    reasons: tuple[Reason, ...]
    failures: FailureMemory
    ranking: Ranking | None
    wake_at: float | None
    planned: int = 0
    leave: tuple[str, ...] = ()


def decide(facts: Snapshot) -> Decision:
    """Decide what follows from a snapshot. Pure: the same facts, the same decision.

    Parameters
    ----------
    facts
        Everything that is known at this moment.

    Returns
    -------
    Decision
        Commands, reasons and the time to look again. Nothing has happened yet.

    Examples
    --------
    >>> decision = decide(Snapshot(now=0.0, target=2, instances={}, seen=frozenset()))
    >>> decision.commands
    (Start(tokens=('0', '1'), workers=('0', '1')),)
    """
    survey = observe(facts)
    draft = Draft(survey, facts.ranking)
    before, arrived = survey.present, workers_in(survey.arrived)
    turn_away(draft)
    if facts.closing:
        allowed = 0
        close(draft)
    else:
        allowed = _allowed(survey, before, arrived)
        if before > allowed:
            shrink(draft, allowed, before - allowed)
        grow(draft, allowed - before)
        drop_broken(draft, allowed)
    tidy(draft)
    forget_answer(draft)
    return Decision(
        now=facts.now,
        target=facts.target,
        allowed=allowed,
        before=before,
        after=before + draft.gained,
        arrived=arrived,
        commands=tuple(draft.commands),
        changed=tuple(survey.changed.values()),
        reasons=survey.reasons,
        failures=survey.failures,
        ranking=draft.ranking,
        wake_at=survey.wake_at,
        planned=draft.planned,
        leave=names_of(draft.leave),
    )


def _allowed(survey: Survey, present: int, arrived: int) -> int:
    """Send the target through the limiters."""
    unasked = [one for one in survey.planned if one.asked_at is None]
    standing = Standing(
        survey.facts,
        survey.failures,
        present=present,
        unasked=workers_in(unasked),
        arrived=arrived,
        draining=workers_in(survey.draining),
    )
    if survey.failures.strikes:
        standing = _with_proof(standing, survey)
    allowed, reasons, wake_at = limit(survey.facts.target, standing)
    for reason in reasons:
        survey.say(reason.cause, reason.workers, **reason.figures)
    if wake_at is not None:
        survey.wake(wake_at)
    return allowed


def _with_proof(standing: Standing, survey: Survey) -> Standing:
    """Count those that were asked for after the last failure."""
    now, memory = survey.facts.now, survey.failures
    proof = survey.facts.settings.patience.proof
    unproven = proven = 0
    proof_at: float | None = None
    for one in (
        *survey.planned,
        *survey.requested,
        *survey.arrived,
        *survey.lost,
    ):
        is_asked = one.state is not State.PLANNED or one.asked_at is not None
        if one.round <= memory.round or not is_asked:
            continue
        if memory.were_refused and one.state is not State.PLANNED:
            proven += one.size
        elif one.state is State.ARRIVED and one.seen_at is not None:
            if now >= one.seen_at + proof:
                proven += one.size
            else:
                unproven += one.size
                proof_at = earliest(proof_at, one.seen_at + proof)
        else:
            unproven += one.size
    return replace(standing, unproven=unproven, proven=proven, proof_at=proof_at)
