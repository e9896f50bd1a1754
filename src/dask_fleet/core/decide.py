"""The one decision: what follows from a snapshot."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dask_fleet.core.causes import Cause, Figure, Reason
from dask_fleet.core.commands import (
    AskRanking,
    Command,
    Drain,
    Recall,
    Release,
    Start,
    TurnAway,
)
from dask_fleet.core.endings import Ending, EndingKind
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.instance import Instance, Step, Takeback
from dask_fleet.core.leaving import cheapest_arrived, without_arrived
from dask_fleet.core.limits import Standing, earliest, limit
from dask_fleet.core.observe import Survey, observe, workers_in
from dask_fleet.core.snapshot import Ranking, Snapshot
from dask_fleet.core.states import State


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


@dataclass(slots=True)
class _Draft:
    """A decision in the making."""

    survey: Survey
    ranking: Ranking | None
    commands: list[Command] = field(default_factory=list)
    #: Serials used so far.
    planned: int = 0
    #: Workers that count towards the target after this decision and did not before,
    #: less those that did.
    gained: int = 0

    @property
    def facts(self) -> Snapshot:
        return self.survey.facts

    def change(self, one: Instance) -> Instance:
        self.survey.changed[one.token] = one
        return one

    def ask(self, one: Instance) -> None:
        """Note that a command for it is out."""
        self.change(replace(one, asked_at=self.facts.now))

    def say(
        self, cause: Cause, instances: Iterable[Instance], **figures: Figure
    ) -> None:
        names = names_of(instances)
        self.survey.say(cause, names, **{"count": len(names), **figures})


def names_of(instances: Iterable[Instance]) -> tuple[str, ...]:
    """Return the names of all workers of some instances."""
    return tuple([name for one in instances for name in one.workers])


def tokens_of(instances: Iterable[Instance]) -> tuple[str, ...]:
    """Return the tokens of some instances."""
    return tuple([one.token for one in instances])


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
    draft = _Draft(survey, facts.ranking)
    standing = _standing(survey)
    before = standing.present
    _turn_away(draft)
    if facts.closing:
        allowed = 0
        _close(draft)
    else:
        allowed, reasons, wake_at = limit(facts.target, standing)
        survey.reasons.extend(reasons)
        if wake_at is not None:
            survey.wake(wake_at)
        if before < allowed:
            _grow(draft, allowed - before)
        elif before > allowed:
            _shrink(draft, allowed, before - allowed)
        _start_planned(draft)
        _drop_broken(draft, allowed)
    _tidy(draft)
    return Decision(
        now=facts.now,
        target=facts.target,
        allowed=allowed,
        before=before,
        after=before + draft.gained,
        arrived=workers_in(survey.arrived),
        commands=tuple(draft.commands),
        changed=tuple(survey.changed.values()),
        reasons=tuple(survey.reasons),
        failures=survey.failures,
        ranking=draft.ranking,
        wake_at=survey.wake_at,
        planned=draft.planned,
    )


def _standing(survey: Survey) -> Standing:
    """Sum up what the limiters work from."""
    facts, memory = survey.facts, survey.failures
    on_the_way_out = workers_in(survey.draining) + workers_in(survey.leaving)
    standing = Standing(facts, memory, survey.present(), on_the_way_out)
    if not memory.strikes:
        return standing
    proof = facts.settings.patience.proof
    unproven = proven = 0
    proof_at: float | None = None
    # One that has disappeared may be on its way to be the next failure.
    for one in (*survey.planned, *survey.requested, *survey.arrived, *survey.lost):
        if one.round <= memory.round:
            continue
        if one.seen_at is None or one.state is State.LOST:
            unproven += one.size
        elif facts.now >= one.seen_at + proof:
            proven += one.size
        else:
            unproven += one.size
            proof_at = earliest(proof_at, one.seen_at + proof)
    return replace(standing, unproven=unproven, proven=proven, proof_at=proof_at)


def _grow(draft: _Draft, missing: int) -> None:
    """Take drains back, then plan new instances."""
    facts = draft.facts
    if facts.recallable:
        missing -= _recall(draft, missing)
    size = facts.settings.workers_per_instance
    for serial in range(
        facts.next_serial, facts.next_serial + math.ceil(max(0, missing) / size)
    ):
        token = f"{facts.prefix}{serial}"
        workers = (token,) if size == 1 else tuple(f"{token}-{i}" for i in range(size))
        one = Instance(
            token=token,
            workers=workers,
            serial=serial,
            round=facts.round + 1,
            state=State.PLANNED,
            since=facts.now,
            story=(Step(facts.now, State.PLANNED),),
        )
        draft.survey.planned.append(draft.change(one))
        draft.planned += 1
        draft.gained += size


def _recall(draft: _Draft, missing: int) -> int:
    """Take back those that drain, the latest first; return how many workers."""
    chosen: list[Instance] = []
    latest_first = sorted(
        draft.survey.draining, key=lambda one: (-one.since, -one.serial)
    )
    for one in latest_first:
        if workers_in(chosen) >= missing:
            break
        if one.takeback is Takeback.NOT_ASKED:
            chosen.append(one)
    if chosen:
        for one in chosen:
            draft.change(replace(one, takeback=Takeback.ASKED))
        draft.commands.append(Recall(tokens_of(chosen), names_of(chosen)))
        draft.say(Cause.RECALLED, chosen)
        draft.gained += workers_in(chosen)
    return workers_in(chosen)


def _start_planned(draft: _Draft) -> None:
    """Ask for what is planned, in one call, and for one call at a time."""
    survey = draft.survey
    planned = [survey.changed.get(one.token, one) for one in survey.planned]
    waiting = [
        one for one in planned if one.state is State.PLANNED and one.asked_at is None
    ]
    if not waiting or any(one.asked_at is not None for one in planned):
        return
    for one in waiting:
        draft.ask(one)
    draft.commands.append(Start(tokens_of(waiting), names_of(waiting)))
    draft.say(Cause.STARTING, waiting)


def _shrink(draft: _Draft, allowed: int, surplus: int) -> None:
    """Let surplus go, in the order of ``leaving.py``."""
    now = draft.facts.now
    leavers = without_arrived(draft.survey, surplus)
    for one in leavers.unplanned:
        draft.change(one.moved(State.GONE, now, "not needed any more"))
    for one in leavers.withdrawn:
        _release_later(draft, one, "not needed any more")
    withdrawn = (*leavers.unplanned, *leavers.withdrawn)
    if withdrawn:
        draft.say(Cause.WITHDRAWN, withdrawn)
        draft.gained -= workers_in(withdrawn)
    if leavers.surplus >= draft.facts.settings.workers_per_instance:
        _shrink_arrived(draft, allowed, leavers.surplus)


def _shrink_arrived(draft: _Draft, allowed: int, surplus: int) -> None:
    """Ask who should leave, or act on a fresh answer."""
    facts, ranking = draft.facts, draft.ranking
    if facts.seen is None:
        draft.survey.say(Cause.WAITING_FOR_SCHEDULER, ())
        return
    if ranking is not None and ranking.workers is None and not ranking.failed:
        return  # the question is out
    again_at = -math.inf
    if ranking is not None and ranking.target == allowed:
        again_at = ranking.at + facts.settings.deadlines.ask_again
    if facts.now >= again_at:
        draft.ranking = Ranking(allowed, facts.now)
        draft.commands.append(AskRanking(allowed, surplus))
        return
    draft.survey.wake(again_at)
    assert ranking is not None
    leavers = cheapest_arrived(draft.survey, ranking.workers or (), surplus)
    if leavers:
        _drain(draft, leavers)
        draft.gained -= workers_in(leavers)
        draft.ranking = replace(ranking, workers=())
    surplus -= workers_in(leavers)
    if surplus >= facts.settings.workers_per_instance:
        detail = ranking.detail or "the scheduler needs them for now"
        if ranking.failed:
            detail = "nobody can say who should leave"
        draft.survey.say(Cause.HELD, (), count=surplus, detail=detail)


def _drain(draft: _Draft, leavers: list[Instance]) -> None:
    now = draft.facts.now
    for one in leavers:
        draft.ask(one.moved(State.DRAINING, now))
    draft.commands.append(Drain(tokens_of(leavers), names_of(leavers)))
    draft.say(Cause.DRAINING, leavers)


def _drop_broken(draft: _Draft, allowed: int) -> None:
    """Let go of instances that have lost a worker for good, once others do the work."""
    broken = draft.survey.broken
    replaced = workers_in(draft.survey.arrived) >= allowed
    if broken and replaced and draft.facts.seen is not None:
        _drain(draft, broken)


def _release_later(draft: _Draft, one: Instance, why: str) -> None:
    """Move it to *leaving*; ``_tidy`` gives the one command for all of them."""
    draft.survey.leaving.append(
        draft.change(one.moved(State.LEAVING, draft.facts.now, why))
    )


def _tidy(draft: _Draft) -> None:
    """Release what failed, what was lost for too long, and what does not leave."""
    survey, facts = draft.survey, draft.facts
    for one in survey.overdue:
        detail = f"it was away for {facts.settings.deadlines.lost:g} s"
        ending = Ending(EndingKind.CRASHED, detail)
        survey.say(Cause.DIED, one.workers, kind=str(ending.kind), detail=detail)
        if one.is_infant(one.since, facts.settings.patience.infancy):
            survey.strike(one, ending, arrived=True)
        _release_later(draft, one, detail)
    for one in survey.failed:
        _release_later(draft, one, "clean up")
    due = [one for one in survey.leaving if _release_is_due(draft, one)]
    if not due:
        return
    for one in due:
        if one.tries:
            survey.say(
                Cause.STUCK,
                one.workers,
                tries=one.tries,
                detail="asked again" if one.released else "the call did not succeed",
            )
        draft.ask(replace(one, tries=one.tries + 1, released=False))
    draft.commands.append(Release(tokens_of(due), names_of(due)))


def _release_is_due(draft: _Draft, one: Instance) -> bool:
    """At once, and again after pauses that double."""
    if one.asked_at is not None:
        return False
    due_at = one.since + draft.facts.settings.deadlines.leave * (2.0**one.tries - 1)
    draft.survey.wake(due_at)
    return draft.facts.now >= due_at


def _turn_away(draft: _Draft) -> None:
    """Find names that the books do not have: departed ones are turned away."""
    facts, survey = draft.facts, draft.survey
    if facts.seen is None or survey.matched >= len(facts.seen):
        return
    known = {name for one in facts.instances.values() for name in one.workers}
    strangers = facts.seen - known
    foreign = sorted(strangers - facts.departed)
    if foreign:
        survey.say(Cause.FOREIGN, tuple(foreign), count=len(foreign))
    again = facts.settings.deadlines.leave
    back = []
    for name in sorted(strangers & facts.departed):
        due_at = facts.turned_away.get(name, -math.inf) + again
        survey.wake(due_at)
        if facts.now >= due_at:
            survey.wake(facts.now + again)
            back.append(name)
    if back:
        survey.say(Cause.TURNED_AWAY, tuple(back), count=len(back))
        draft.commands.append(TurnAway(tuple(back)))


def _close(draft: _Draft) -> None:
    """Everything goes, without asking the scheduler."""
    survey, now = draft.survey, draft.facts.now
    draft.gained = -survey.present()
    for one in survey.planned:
        if one.asked_at is None:
            draft.change(one.moved(State.GONE, now, "closing"))
    for one in (
        *survey.requested,
        *survey.arrived,
        *survey.broken,
        *survey.lost,
        *survey.draining,
        *survey.recalled,
    ):
        _release_later(draft, one, "closing")
