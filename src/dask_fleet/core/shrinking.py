"""Fewer workers: surplus goes in the order of ``leaving.py``."""

from __future__ import annotations

import math
from dataclasses import replace

from dask_fleet.core.causes import Cause
from dask_fleet.core.commands import AskRanking, Drain
from dask_fleet.core.draft import Draft, names_of, tokens_of
from dask_fleet.core.instance import Instance
from dask_fleet.core.leaving import cheapest_arrived, without_arrived
from dask_fleet.core.snapshot import Ranking
from dask_fleet.core.states import State
from dask_fleet.core.survey import workers_in


def shrink(draft: Draft, allowed: int, surplus: int) -> None:
    """Let surplus go.

    Parameters
    ----------
    draft
        The decision in the making.
    allowed
        Workers that may be present.
    surplus
        Workers above that.
    """
    survey, now = draft.survey, draft.facts.now
    leavers = without_arrived(survey, surplus)
    for one in leavers.unasked:
        survey.change(one.moved(State.GONE, now, "not needed any more"))
    for one in leavers.withdrawn:
        draft.release(one, "not needed any more")
    withdrawn = [*leavers.unasked, *leavers.withdrawn]
    if withdrawn:
        gone = {one.token for one in leavers.unasked}
        survey.planned = [one for one in survey.planned if one.token not in gone]
        draft.say(Cause.WITHDRAWN, withdrawn)
        draft.go(withdrawn)
    _shrink_arrived(draft, allowed, leavers.surplus)


def _shrink_arrived(draft: Draft, allowed: int, surplus: int) -> None:
    """Act on the answer to the question who should leave, or ask it."""
    facts, ranking = draft.facts, draft.ranking
    smallest = min([one.size for one in draft.survey.arrived], default=math.inf)
    if surplus < smallest:
        return
    if facts.seen is None:
        draft.say(Cause.WAITING_FOR_SCHEDULER, ())
        return
    if ranking is not None and ranking.is_out:
        return
    again_at = -math.inf
    if ranking is not None and ranking.target == allowed:
        again_at = ranking.at + facts.settings.deadlines.ask_again
        leavers = cheapest_arrived(draft.survey, ranking.workers or (), surplus)
        if leavers:
            _drain(draft, leavers)
            draft.say(Cause.DRAINING, leavers)
            draft.go(leavers)
            surplus -= workers_in(leavers)
        if surplus < smallest:
            return
    if facts.now >= again_at:
        draft.ranking = Ranking(allowed, facts.now)
        draft.commands.append(AskRanking(allowed, surplus))
        return
    assert ranking is not None
    detail = ranking.detail or "the scheduler needs them for now"
    if ranking.failed:
        detail = "nobody can say who should leave"
    draft.survey.say(Cause.HELD, (), count=surplus, detail=detail)
    draft.survey.wake(again_at)


def _drain(draft: Draft, leavers: list[Instance]) -> None:
    now = draft.facts.now
    for one in leavers:
        draft.survey.change(one.moved(State.DRAINING, now, asked_at=now))
    draft.commands.append(Drain(tokens_of(leavers), names_of(leavers)))


def drop_broken(draft: Draft, allowed: int) -> None:
    """Let go of instances that have lost a worker for good, once others do the work.

    What counts is who really works: as many as are allowed must stay. So a fleet in
    which nothing ever comes whole does not pile up half instances without end either.
    """
    survey, facts = draft.survey, draft.facts
    if not survey.broken or survey.silent:
        return
    at_work = sum(map(survey.count, (*survey.arrived, *survey.broken)))
    leavers = []
    for one in sorted(survey.broken, key=lambda one: (survey.count(one), one.serial)):
        if one.asked_at is not None or at_work - survey.count(one) < allowed:
            continue
        kept_at = one.trouble.kept_at
        again_at = (kept_at or 0.0) + facts.settings.deadlines.ask_again
        if kept_at is not None and facts.now < again_at:
            survey.wake(again_at)
            continue
        leavers.append(one)
        at_work -= survey.count(one)
    if leavers:
        _drain(draft, leavers)
        draft.say(Cause.DRAINING, leavers)


def forget_answer(draft: Draft) -> None:
    """An answer serves one decision: who may go now may have work in a moment."""
    if draft.ranking is not None and draft.ranking.workers:
        draft.ranking = replace(draft.ranking, workers=())
