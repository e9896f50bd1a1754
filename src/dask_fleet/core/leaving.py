"""Who leaves: surplus goes in one order, whatever brought it about.

1. planned and not yet asked for,
2. requested and not arrived, newest first,
3. lost ones, longest lost first: nobody can work there,
4. arrived ones, cheapest first as the ranking says, whole instances only.

Never one that would leave fewer workers than the target. An instance whose start is
just being asked for cannot be withdrawn before the answer is there; it is reserved as
the next to go, so that no arrived worker leaves in its place. While the scheduler is
silent those that are lost may be there all the same, and stay.

Among the arrived, those that the scheduler refused to let go a short while ago come
last, whatever the ranking says: one that has to stay must not keep those that may go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from dask_fleet.core.instance import Instance
from dask_fleet.core.survey import Survey, workers_in


@dataclass(slots=True)
class Leavers:
    """Who goes, by what it takes to let them go.

    Parameters
    ----------
    unasked
        Nothing was asked yet: just forget them.
    withdrawn
        The resource manager has to drop them; the scheduler does not see them.
    surplus
        Workers that still have to go, from among the arrived.
    """

    unasked: list[Instance] = field(default_factory=list)
    withdrawn: list[Instance] = field(default_factory=list)
    surplus: int = 0


def without_arrived(survey: Survey, surplus: int) -> Leavers:
    """Choose from those that have not arrived or are lost.

    Parameters
    ----------
    survey
        Where everybody is.
    surplus
        Workers above what is allowed.
    """
    chosen = survey.facts.dismissed
    # What was chosen by name and has arrived is not spared for somebody else's sake.
    reserved = min(surplus, workers_in(_dismissed(survey))) if chosen else 0
    leavers = Leavers(surplus=surplus - reserved)

    def first(one: Instance) -> tuple[bool, int]:
        return (one.token not in chosen, -one.serial)

    newest = sorted(survey.planned, key=first)
    for one in newest:
        if one.asked_at is None and one.size <= leavers.surplus:
            leavers.unasked.append(one)
            leavers.surplus -= one.size
    for one in newest:
        if one.asked_at is not None and one.size <= leavers.surplus:
            leavers.surplus -= one.size
    waiting = sorted(survey.requested, key=first)
    lost = [] if survey.silent else sorted(survey.lost, key=_longest_first)
    for one in (*waiting, *lost):
        if one.size <= leavers.surplus:
            leavers.withdrawn.append(one)
            leavers.surplus -= one.size
    leavers.surplus += reserved
    return leavers


def _dismissed(survey: Survey) -> list[Instance]:
    """Return the arrived ones that somebody chose to leave."""
    chosen = survey.facts.dismissed
    return [one for one in survey.arrived if one.token in chosen] if chosen else []


def cheapest_arrived(
    survey: Survey, ranked: Iterable[str], surplus: int
) -> list[Instance]:
    """Choose from the arrived, in the order of a ranking.

    An instance goes only if all its workers are in the ranking. One that is too large
    for what is left of the surplus is passed over for a smaller one.

    Parameters
    ----------
    survey
        Where everybody is.
    ranked
        Names of workers, cheapest first; unknown names are passed over. It may name
        more than have to go.
    surplus
        Workers that have to go.
    """
    chosen = []
    for one in _by_cost(survey, ranked):
        if one.size <= surplus:
            chosen.append(one)
            surplus -= one.size
            if not surplus:
                break
    return chosen


def _by_cost(survey: Survey, ranked: Iterable[str]) -> list[Instance]:
    """Return the instances that may go: an instance costs what its last worker does."""
    home = {name: one for one in survey.arrived for name in one.workers}
    ranked = (*(name for one in _dismissed(survey) for name in one.workers), *ranked)
    open_names: dict[str, int] = {}
    may_go = []
    for name in dict.fromkeys(ranked):
        one = home.get(name)
        if one is None:
            continue
        left = one.size - 1
        if left:
            left = open_names.get(one.token, one.size) - 1
            open_names[one.token] = left
        if not left and one.asked_at is None:
            may_go.append(one)
    now = survey.facts.now
    fresh = now - survey.facts.settings.deadlines.refused
    kept = {one.token: at for one in may_go if (at := _kept_at(one)) > fresh}
    if not kept:
        return may_go
    late = sorted(
        [one for one in may_go if one.token in kept], key=lambda one: kept[one.token]
    )
    return [one for one in may_go if one.token not in kept] + late


def _kept_at(one: Instance) -> float:
    return -math.inf if one.trouble.kept_at is None else one.trouble.kept_at


def _longest_first(one: Instance) -> tuple[float, int]:
    return (one.since, -one.serial)
