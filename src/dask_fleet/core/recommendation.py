"""What scaling to a target would do now, without doing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dask_fleet.core.causes import Reason
from dask_fleet.core.commands import Recall
from dask_fleet.core.decide import Decision


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer to "what would ``scale(target)`` do?".

    Parameters
    ----------
    status
        ``"up"``, ``"down"`` or ``"same"``.
    target
        The target that was asked about.
    start
        How many workers would be planned and asked for.
    recall
        Names of leaving workers that would be taken back.
    workers
        Names that would leave, in the order in which they would go.
    reasons
        Why so, and why not otherwise.
    """

    status: Literal["up", "down", "same"]
    target: int
    start: int = 0
    recall: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


def recommendation(decision: Decision) -> Recommendation:
    """Read a recommendation off a decision that is not carried out.

    Parameters
    ----------
    decision
        Made from the facts of now with another target.
    """
    recall: tuple[str, ...] = ()
    for command in decision.commands:
        if isinstance(command, Recall):
            recall = command.workers
    start = max(0, decision.after - decision.before - len(recall))
    status: Literal["up", "down", "same"] = "same"
    if start or recall:
        status = "up"
    elif decision.leave:
        status = "down"
    return Recommendation(
        status=status,
        target=decision.target,
        start=start,
        recall=recall,
        workers=decision.leave,
        reasons=decision.reasons,
    )
