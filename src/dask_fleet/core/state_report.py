"""One frozen record of how a fleet stands, for those who show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: All well; some starts fail or something is held back; no worker can be started.
Health = Literal["ok", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class FleetState:
    """How a fleet stands now.

    Parameters
    ----------
    mode
        Who sets the target: the user or the adaptive policy.
    status
        The cluster's status: ``"running"``, ``"closed"``, ``"failed"`` …
    target
        Workers that should exist, within the bounds.
    plan, requested, observed
        Workers planned, accepted by the resource manager, seen by the scheduler.
    minimum, maximum
        Bounds in workers; ``None`` where there is none.
    health
        Whether starts succeed.
    last
        Why it is as it is, in one sentence; empty at the beginning.
    """

    mode: Literal["manual", "adaptive"]
    status: str
    target: int
    plan: int
    requested: int
    observed: int
    minimum: int | None
    maximum: int | None
    health: Health
    last: str
