"""More workers: drains are taken back first, then new instances are asked for."""

from __future__ import annotations

import math

from dask_fleet.core.causes import Cause
from dask_fleet.core.commands import Recall, Start
from dask_fleet.core.draft import Draft, names_of, tokens_of
from dask_fleet.core.instance import Instance, Takeback
from dask_fleet.core.naming import Named
from dask_fleet.core.states import State
from dask_fleet.core.survey import workers_in

#: Seconds until the next look, for what could not be named in this one.
SOON = 0.01


def grow(draft: Draft, missing: int) -> None:
    """Bring in what is missing, and ask for what was planned before.

    Parameters
    ----------
    draft
        The decision in the making.
    missing
        Workers; zero or less if none is.
    """
    if missing > 0 and draft.facts.recallable:
        missing -= _recall(draft, missing)
    waiting = draft.survey.planned
    # One call at a time: it is bulk that resource managers are good at, and nobody who
    # writes one has to think of two at once. What comes up meanwhile is planned, and
    # asked for once the answer is there.
    call_is_out = any(one.asked_at is not None for one in waiting)
    now = draft.facts.now
    new = _plan(draft, missing, None if call_is_out else now) if missing > 0 else []
    if call_is_out or not (waiting or new):
        return
    asked = [draft.survey.change(one.but(asked_at=now)) for one in waiting] + new
    draft.commands.append(Start(tokens_of(asked), names_of(asked)))
    draft.say(Cause.STARTING, asked)


def _plan(draft: Draft, missing: int, asked_at: float | None) -> list[Instance]:
    """Plan whole instances, as many as hold what is missing."""
    facts = draft.facts
    now, round, serial = facts.now, facts.round + 1, facts.next_serial
    story = (now, State.PLANNED.value, "")
    new = []
    for token, workers in _named(draft, missing):
        one = Instance(
            token, workers, serial, round, State.PLANNED, now, asked_at, story=story
        )
        new.append(one)
        serial += 1
    draft.survey.changed.update({one.token: one for one in new})
    draft.planned = len(new)
    draft.gained += workers_in(new)
    return new


def _named(draft: Draft, missing: int) -> list[Named]:
    """Name the fewest instances that hold what is missing."""
    facts = draft.facts
    if facts.names is not None:
        return _given(draft, facts.names, missing)
    size, first = facts.settings.workers_per_instance, facts.next_serial
    tokens = [
        f"{facts.prefix}{serial}"
        for serial in range(first, first + math.ceil(missing / size))
    ]
    if size == 1:
        return [(token, (token,)) for token in tokens]
    return [(token, tuple([f"{token}-{i}" for i in range(size)])) for token in tokens]


def _given(draft: Draft, names: tuple[Named, ...], missing: int) -> list[Named]:
    """Use names that were given.

    Whoever was found to be over in this very decision is missing too, and has none yet.
    """
    named: list[Named] = []
    for one in names:
        if missing <= 0:
            break
        named.append(one)
        missing -= len(one[1])
    if missing > 0:
        draft.survey.wake(draft.facts.now + SOON)
    return named


def _recall(draft: Draft, missing: int) -> int:
    """Take back those that drain, the latest first; return how many workers."""
    latest_first = sorted(
        draft.survey.draining, key=lambda one: (-one.since, -one.serial)
    )
    chosen: list[Instance] = []
    found = 0
    for one in latest_first:
        if found >= missing:
            break
        if one.trouble.takeback is Takeback.NOT_ASKED:
            chosen.append(one)
            found += one.size
    if chosen:
        for one in chosen:
            draft.survey.change(one.troubled(takeback=Takeback.ASKED))
        draft.commands.append(Recall(tokens_of(chosen), names_of(chosen)))
        draft.say(Cause.RECALLED, chosen)
        draft.gained += found
    return found
