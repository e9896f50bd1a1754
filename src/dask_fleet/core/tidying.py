"""Clean up: what failed, was lost, does not leave, came back, or has to be closed."""

from __future__ import annotations

import math

from dask_fleet.core.causes import Cause
from dask_fleet.core.commands import Release, TurnAway
from dask_fleet.core.draft import Draft, names_of, tokens_of
from dask_fleet.core.instance import Instance
from dask_fleet.core.states import State


def tidy(draft: Draft) -> None:
    """Release what failed, what was away for too long, and what does not leave."""
    survey, now = draft.survey, draft.facts.now
    again = [one for one in survey.leaving if _is_due(draft, one)]
    for one in again:
        if one.tries:
            detail = "asked again" if one.is_released else "the call did not succeed"
            survey.say(Cause.STUCK, one.workers, tries=one.tries, detail=detail)
        told = one.but(asked_at=now, tries=one.tries + 1)
        survey.change(told.troubled(unreleased=False) if one.is_troubled else told)
    for one in survey.overdue:
        draft.release(one, "it was away for too long")
    for one in survey.failed:
        draft.release(one, "clean up")
    due = again + draft.released
    if due:
        draft.commands.append(Release(tokens_of(due), names_of(due)))


def _is_due(draft: Draft, one: Instance) -> bool:
    """Tell at once, and again after pauses that double."""
    if one.asked_at is not None:
        return False
    settings = draft.facts.settings
    pause, longest = settings.deadlines.leave, settings.patience.longest_pause
    if draft.facts.closing:
        pause = settings.deadlines.ask_again
    due_at = one.since
    for _ in range(one.tries):
        due_at += min(pause, longest)
        pause *= 2
    draft.survey.wake(due_at)
    return draft.facts.now >= due_at


def turn_away(draft: Draft) -> None:
    """Find names that the books do not have: departed ones are turned away."""
    facts, survey = draft.facts, draft.survey
    if facts.seen is None or survey.matched >= len(facts.seen):
        return
    known = {name for one in facts.instances.values() for name in one.workers}
    strangers = facts.seen - known
    foreign = sorted(strangers - facts.departed.keys())
    if foreign:
        survey.say(Cause.FOREIGN, foreign)
    again = facts.settings.deadlines.leave
    back = []
    for name in sorted(strangers & facts.departed.keys()):
        last = facts.turned_away.get(name, -math.inf)
        due_at = max(facts.departed[name], last + again)
        if facts.now >= due_at:
            back.append(name)
            due_at = facts.now + again
        survey.wake(due_at)
    if back:
        survey.say(Cause.TURNED_AWAY, back)
        draft.commands.append(TurnAway(tuple(back)))


def close(draft: Draft) -> None:
    """Everything goes, without asking the scheduler."""
    survey, now = draft.survey, draft.facts.now
    asked = [one for one in survey.planned if one.asked_at is not None]
    for one in survey.planned:
        if one.asked_at is None:
            survey.change(one.moved(State.GONE, now, "closing"))
    draft.gained = sum([one.size for one in asked]) - survey.present
    going = (
        *survey.requested,
        *survey.arrived,
        *survey.broken,
        *survey.lost,
        *survey.draining,
        *survey.recalled,
    )
    for one in going:
        draft.release(one, "closing")
