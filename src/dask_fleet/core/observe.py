"""Compare the books with the world: the only place where happenings enter the books.

One pass over all instances. Most of them are where they were, so the pass first asks
the cheap question whether anything about an instance is new. Each kind of instance has
one function that looks at it, says what happened, and puts it into the one list where
it belongs.
"""

from __future__ import annotations

from collections.abc import Callable

from dask_fleet.core.causes import Cause
from dask_fleet.core.endings import NORMAL, Ending, EndingKind
from dask_fleet.core.instance import NO_TROUBLE, Instance, Takeback
from dask_fleet.core.snapshot import Snapshot
from dask_fleet.core.states import State
from dask_fleet.core.survey import Survey


def observe(facts: Snapshot) -> Survey:
    """Look at every instance once.

    Parameters
    ----------
    facts
        The snapshot.

    Returns
    -------
    Survey
        The instances by where they are now, and what has happened to them.
    """
    survey = Survey(facts)
    seen, silent, endings = survey.seen, facts.seen is None, facts.endings
    arrived, changed, new = survey.arrived, survey.changed, survey.newly_arrived
    undisturbed = 0
    for token, one in facts.instances.items():
        # The two common cases cost one set operation: all of it is there, as it was
        # the last time or for the first time.
        if token not in endings:
            if one.state is State.ARRIVED:
                if one.trouble is NO_TROUBLE and (
                    silent or seen.issuperset(one.workers)
                ):
                    arrived.append(one)
                    undisturbed += len(one.workers)
                    continue
            elif one.state is State.REQUESTED and seen.issuperset(one.workers):
                changed[token] = here = one.came(facts.now, whole=True)
                arrived.append(here)
                new.extend(one.workers)
                undisturbed += len(one.workers)
                continue
        _look_closer(one, survey)
    if not silent:
        survey.matched += undisturbed
    if survey.newly_arrived:
        survey.say(Cause.ARRIVED, survey.newly_arrived)
    _judge_failures(survey)
    return survey


def _look_closer(one: Instance, survey: Survey) -> None:
    count = survey.count(one)
    survey.matched += count
    ending = survey.facts.endings.get(one.token)
    if ending is not None:
        _ended(one, ending, survey)
    else:
        _LOOK[one.state](one, count, survey)


def _planned(one: Instance, count: int, survey: Survey) -> None:
    if count:
        # It was quicker than the answer to its start, which is owed all the same.
        now = survey.facts.now
        accepted = one.moved(State.REQUESTED, now, asked_at=one.asked_at)
        _came(accepted, count, survey)
    else:
        survey.planned.append(one)


def _requested(one: Instance, count: int, survey: Survey) -> None:
    if count:
        _came(one, count, survey)
        return
    now, deadlines = survey.facts.now, survey.facts.settings.deadlines
    fail_at = max(one.since, survey.facts.hearing_since) + deadlines.start_fail
    if now >= fail_at and not survey.silent:
        ending = Ending(
            EndingKind.VANISHED, f"no worker came within {deadlines.start_fail:g} s"
        )
        _blame_start(one, ending, survey)
        survey.failed.append(survey.change(one.moved(State.FAILED, now, str(ending))))
        return
    survey.wake(fail_at)
    warn_at = one.since + deadlines.start_warn
    survey.wake(warn_at)
    if now >= warn_at and not one.trouble.warned:
        survey.say(Cause.LATE, one.workers, seconds=now - one.since, detail="")
        one = survey.change(one.troubled(warned=True))
    survey.requested.append(one)


def _came(one: Instance, count: int, survey: Survey) -> None:
    """At least one of its workers is with the scheduler, at first or again."""
    whole = count == len(one.workers)
    here = one.workers if whole else survey.those_seen(one)
    if one.state is State.LOST:
        survey.say(Cause.RETURNED, here)
    else:
        survey.newly_arrived.extend(here)
    one = survey.change(one.came(survey.facts.now, whole=whole))
    survey.arrived.append(one)
    if not whole:
        survey.wake(_complete_by(one, survey))


def _arrived(one: Instance, count: int, survey: Survey) -> None:
    """It had arrived; some or all of its workers were or are missing."""
    if survey.silent:
        (survey.broken if one.trouble.broken else survey.arrived).append(one)
    elif not count:
        _disappeared(one, survey)
    elif count == one.size:
        if one.missing_since is not None:
            one = survey.change(
                one.troubled(missing_since=None, partial=False, broken=False)
            )
        survey.arrived.append(one)
    else:
        _incomplete(one, survey)


def _disappeared(one: Instance, survey: Survey) -> None:
    """None of its workers is with the scheduler any more."""
    now, lost = survey.facts.now, survey.facts.settings.deadlines.lost
    if one.trouble.broken:
        survey.overdue.append(one)  # it has had its time to come back
        return
    survey.say(Cause.LOST, one.workers, seconds=lost)
    survey.lost.append(survey.change(one.moved(State.LOST, now, asked_at=one.asked_at)))
    survey.wake(now + lost)


def _incomplete(one: Instance, survey: Survey) -> None:
    """Some of its workers are with the scheduler, and not all."""
    now, deadlines = survey.facts.now, survey.facts.settings.deadlines
    if one.missing_since is None:
        survey.say(Cause.LOST, survey.those_missing(one), seconds=deadlines.lost)
        one = survey.change(one.troubled(missing_since=now))
    complete_by = _complete_by(one, survey)
    if not one.trouble.broken and now >= complete_by:
        _blame_part(one, survey)
        one = survey.change(one.troubled(broken=True))
    survey.wake(complete_by)
    (survey.broken if one.trouble.broken else survey.arrived).append(one)


def _complete_by(one: Instance, survey: Survey) -> float:
    """When an instance of which some workers are missing counts as broken."""
    deadlines = survey.facts.settings.deadlines
    assert one.missing_since is not None
    since = max(one.missing_since, survey.facts.hearing_since)
    return since + (deadlines.start_fail if one.trouble.partial else deadlines.lost)


def _lost(one: Instance, count: int, survey: Survey) -> None:
    if count:
        _came(one, count, survey)
        return
    lost = survey.facts.settings.deadlines.lost
    give_up_at = max(one.since, survey.facts.hearing_since) + lost
    if survey.silent or survey.facts.now < give_up_at:
        survey.wake(give_up_at)
        survey.lost.append(one)
        return
    detail = f"it was away for {lost:g} s"
    _blame_death(one, Ending(EndingKind.CRASHED, detail), one.since, survey)
    survey.overdue.append(one)


def _draining(one: Instance, count: int, survey: Survey) -> None:
    back = one.trouble.takeback is Takeback.ASKED
    (survey.recalled if back else survey.draining).append(one)


def _leaving(one: Instance, count: int, survey: Survey) -> None:
    # While the scheduler is silent it might still be there; when everything is being
    # closed there is nobody left to ask.
    known_away = not count and (not survey.silent or survey.facts.closing)
    if one.is_released and known_away:
        survey.change(one.moved(State.GONE, survey.facts.now))
    else:
        survey.leaving.append(one)


def _failed(one: Instance, count: int, survey: Survey) -> None:
    survey.failed.append(one)


_LOOK: dict[State, Callable[[Instance, int, Survey], None]] = {
    State.PLANNED: _planned,
    State.REQUESTED: _requested,
    State.ARRIVED: _arrived,
    State.DRAINING: _draining,
    State.LEAVING: _leaving,
    State.FAILED: _failed,
    State.LOST: _lost,
}


def _ended(one: Instance, ending: Ending, survey: Survey) -> None:
    """The resource manager says that it is no more."""
    now = survey.facts.now
    if one.state in (State.PLANNED, State.REQUESTED):
        _blame_start(one, ending, survey)
        one = one.moved(State.FAILED, now, str(ending))
        survey.change(one.moved(State.GONE, now))
        return
    if one.state is State.DRAINING:
        _say_end(one, ending, Cause.RETIRED, survey)
    elif one.state in (State.ARRIVED, State.LOST):
        left_at = one.since if one.state is State.LOST else now
        _blame_death(one, ending, left_at, survey)
    survey.change(one.moved(State.GONE, now, str(ending)))


def _blame_start(one: Instance, ending: Ending, survey: Survey) -> None:
    """It ended before it came, and nobody here had asked for that."""
    survey.say(
        Cause.START_FAILED, one.workers, kind=str(ending.kind), detail=ending.detail
    )
    survey.strike(one, ending, arrived=False)


def _blame_death(one: Instance, ending: Ending, left_at: float, survey: Survey) -> None:
    """It had arrived and has ended; a death at birth is a failed start."""
    patience = survey.facts.settings.patience
    _say_end(one, ending, Cause.EXPIRED, survey)
    young = patience.proof if ending.kind in NORMAL else patience.infancy
    if one.is_infant(left_at, young):
        survey.strike(one, ending, arrived=True)


def _blame_part(one: Instance, survey: Survey) -> None:
    """Some of its workers did not come, or did not come back."""
    facts, missing = survey.facts, survey.those_missing(one)
    assert one.missing_since is not None
    detail = f"{len(missing)} of {one.size} workers of {one.token} "
    if not one.trouble.partial:
        detail += f"were away for {facts.settings.deadlines.lost:g} s"
        survey.say(Cause.DIED, missing, kind=str(EndingKind.CRASHED), detail=detail)
        if one.is_infant(one.missing_since, facts.settings.patience.infancy):
            survey.strike(one, Ending(EndingKind.CRASHED, detail), arrived=True)
    else:
        detail += f"did not come within {facts.settings.deadlines.start_fail:g} s"
        ending = Ending(EndingKind.VANISHED, detail)
        survey.say(
            Cause.START_FAILED, missing, kind=str(ending.kind), detail=ending.detail
        )
        survey.strike(one, ending, arrived=True)


def _say_end(one: Instance, ending: Ending, normal: Cause, survey: Survey) -> None:
    cause = normal if ending.kind in NORMAL else Cause.DIED
    survey.say(cause, one.workers, kind=str(ending.kind), detail=ending.detail)


def _judge_failures(survey: Survey) -> None:
    """Forget failures once a later round lives, or after a long calm without one."""
    memory, now = survey.failures, survey.facts.now
    if not memory.strikes:
        return
    patience = survey.facts.settings.patience
    # One that has disappeared proves nothing: it may be dead.
    tried = (*survey.requested, *survey.lost)
    later = any(one.round > memory.round for one in tried)
    lives = [one.seen_at for one in survey.arrived if one.round > memory.round]
    first = min((at for at in lives if at is not None), default=None)
    forget_at = memory.pause_until + patience.longest_pause
    if first is not None:
        forget_at = first + patience.infancy
        if now >= first + patience.proof:
            survey.failures = memory.arrived()
    elif later:
        return  # one is on its way
    survey.wake(forget_at)
    if now >= forget_at:
        survey.failures = memory.cleared()
