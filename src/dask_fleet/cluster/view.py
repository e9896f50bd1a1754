"""What a cluster shows of itself, made from its control."""

from __future__ import annotations

import time
from html import escape

from distributed.core import Status

from dask_fleet.cluster.control import Control
from dask_fleet.core import Cause
from dask_fleet.core.explain import explain
from dask_fleet.core.state_report import FleetState, Health


def state_of(control: Control, status: Status) -> FleetState:
    """Collect how a fleet stands."""
    limits = control.fleet.limits
    adaptive = control.handle is not None
    finite = limits.maximum < float("inf")
    return FleetState(
        mode="adaptive" if adaptive else "manual",
        status=status.name,
        target=control.target,
        plan=len(control.fleet.plan),
        requested=len(control.fleet.requested),
        observed=len(control.observed),
        minimum=limits.minimum if adaptive else None,
        maximum=int(limits.maximum) if adaptive and finite else None,
        health=_health(control),
        last=_last(control),
    )


def _health(control: Control) -> Health:
    memory = control.fleet.failures
    if control.failure is not None:
        return "failed"
    if memory.is_open(control.fleet.settings.patience) and not control.observed:
        return "failed"
    return "degraded" if memory.strikes else "ok"


#: What people look for first: why it is not as wanted, then what came last.
_TROUBLE = (Cause.BREAKER, Cause.PAUSE, Cause.HELD, Cause.WAITING_FOR_SCHEDULER)


#: How the sentence begins that somebody is held.
_HELD = Cause.HELD.template.partition("{")[0]


def _last(control: Control) -> str:
    if control.failure is not None:
        return f"the cluster has failed: {control.failure}"
    standing = control.log.standing
    for reason in standing:
        if reason.cause in _TROUBLE:
            return reason.sentence
    memory = control.fleet.failures
    if memory.strikes:
        return f"after {memory.strikes} failed round(s) of starts; last: {memory.last}"
    if standing:
        return standing[-1].sentence
    events = list(control.log)
    return events[-1].sentence if events else ""


def explanation(control: Control, state: FleetState) -> str:
    """Tell how a fleet stands, and why."""
    return explain(
        state,
        control.log.standing,
        control.fleet.instances,
        control.log,
        time.monotonic(),
        control.waiting,
    )


def with_figures(text: str, state: FleetState) -> str:
    """Put what is not as wanted into a cluster's repr.

    Examples
    --------
    >>> state = FleetState("manual", "running", 3, 3, 3, 1, None, None, "ok", "")
    >>> with_figures("LocalCluster('a', workers=1)", state)
    "LocalCluster('a', workers=1, target=3)"
    >>> state = FleetState("manual", "running", 0, 0, 1, 1, None, None, "ok",
    ...                    "held: 1 worker(s) above the target stay: 2 key(s) ...")
    >>> with_figures("LocalCluster('a', workers=1)", state)[29:]
    'target=0, held: 1 worker(s) above the target stay: 2 key(s) ...)'
    """
    more = ""
    if state.status == "running" and state.target != state.observed:
        more += f", target={state.target}"
    if state.mode == "adaptive":
        more += ", adaptive"
    if state.health != "ok":
        more += f", {state.health}: {state.last}"
    elif state.last.startswith(_HELD):
        more += f", {state.last}"
    return f"{text[:-1]}{more})"


def html_rows(state: FleetState) -> str:
    """Render the figures of a fleet as rows of a table."""
    figures = (
        f"target {state.target}, plan {state.plan}, requested {state.requested}, "
        f"observed {state.observed}"
    )
    mode: str = state.mode
    if mode == "adaptive":
        high = "no maximum" if state.maximum is None else f"maximum {state.maximum}"
        mode += f" (minimum {state.minimum}, {high})"
    rows = [("Scaling mode", mode), ("Workers", figures), ("Health", state.health)]
    if state.last:
        rows.append(("Last reason", state.last))
    return "".join(status_row(label, text) for label, text in rows)


def status_row(label: str, text: str) -> str:
    """Render one row of the table of a cluster's status."""
    return (
        f'<tr><td style="text-align: left;"><strong>{escape(label)}:</strong> '
        f"{escape(text)}</td></tr>"
    )
