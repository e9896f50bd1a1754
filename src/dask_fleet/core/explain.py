"""Why not more, why not fewer, why these ones: in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dask_fleet.core.causes import Reason
from dask_fleet.core.events import Event
from dask_fleet.core.instance import Instance
from dask_fleet.core.state_report import FleetState
from dask_fleet.core.states import State

#: How many instances are told of one by one.
TOLD = 20

_WORDS = {
    State.PLANNED: "being asked for",
    State.REQUESTED: "asked for, not here yet",
    State.DRAINING: "finishing, then leaving",
    State.LEAVING: "leaving",
    State.FAILED: "failed, being cleaned up",
    State.LOST: "disappeared, may come back",
}


def explain(
    state: FleetState,
    standing: Iterable[Reason],
    instances: Mapping[str, Instance],
    events: Iterable[Event],
    now: float,
    waiting: Mapping[str, str] | None = None,
) -> str:
    """Tell how a fleet stands and why.

    Parameters
    ----------
    state
        Its figures.
    standing
        Conditions that hold now.
    instances
        The books.
    events
        The history; the last few are told.
    now
        Seconds of the clock of the books.
    waiting
        Why workers are not here yet, in the resource manager's words, by name.

    Returns
    -------
    str
        Several lines.
    """
    high = "no maximum" if state.maximum is None else f"maximum {state.maximum}"
    bounds = (
        f", minimum {state.minimum or 0}, {high}" if state.mode == "adaptive" else ""
    )
    lines = [
        f"{state.status}, {state.mode}{bounds}: target {state.target}, "
        f"plan {state.plan}, requested {state.requested}, observed {state.observed}"
    ]
    reasons = [str(reason) for reason in standing]
    if reasons:
        lines += ["now:", *(f"  {reason}" for reason in reasons)]
    elif state.plan == state.observed == state.target:
        lines.append("now:\n  as it should be")
    moving = [one for one in instances.values() if one.state in _WORDS]
    if moving:
        lines.append("on the way:")
        lines += [f"  {_told(one, now, waiting or {})}" for one in moving[:TOLD]]
        if len(moving) > TOLD:
            lines.append(f"  and {len(moving) - TOLD} more")
    last = list(events)[-5:]
    if last:
        lines += ["last:", *(f"  {event}" for event in last)]
    return "\n".join(lines)


def _told(one: Instance, now: float, waiting: Mapping[str, str]) -> str:
    words = _WORDS[one.state]
    why = [f" ({waiting[name]})" for name in one.workers if name in waiting][:1]
    seconds = max(0.0, now - one.since)
    return f"{', '.join(one.workers)}: {words} for {seconds:.1f} s{''.join(why)}"
