"""What scaling to a target would do now, without doing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dask_fleet.core.causes import Reason
from dask_fleet.core.commands import Drain, Recall, Release, Start
from dask_fleet.core.decide import Decision
from dask_fleet.core.states import State


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
        How many workers would be asked for.
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
    start = 0
    recall: tuple[str, ...] = ()
    leave: list[str] = []
    for one in decision.changed:
        if one.state is State.GONE and one.story and "not needed" in one.story[-1].why:
            leave.extend(one.workers)
    for command in decision.commands:
        if isinstance(command, Start):
            start = len(command.workers)
        elif isinstance(command, Recall):
            recall = command.workers
        elif isinstance(command, (Release, Drain)):
            leave.extend(command.workers)
    status: Literal["up", "down", "same"] = "same"
    if start or recall:
        status = "up"
    elif decision.after < decision.before:
        status = "down"
    return Recommendation(
        status=status,
        target=decision.target,
        start=start,
        recall=recall,
        workers=tuple(leave),
        reasons=decision.reasons,
    )
