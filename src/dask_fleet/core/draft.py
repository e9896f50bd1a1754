"""A decision in the making."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dask_fleet.core.causes import Cause, Figure
from dask_fleet.core.commands import Command
from dask_fleet.core.instance import Instance
from dask_fleet.core.snapshot import Ranking, Snapshot
from dask_fleet.core.states import State
from dask_fleet.core.survey import Survey, workers_in


@dataclass(slots=True)
class Draft:
    """A decision in the making.

    Parameters
    ----------
    survey
        Where everybody is.
    ranking
        The last question who should leave.
    """

    survey: Survey
    ranking: Ranking | None
    commands: list[Command] = field(default_factory=list)
    #: Serials used so far.
    planned: int = 0
    #: Workers that count towards the target after this decision and did not before,
    #: less those that did.
    gained: int = 0
    #: Those that go for the sake of the target, in order.
    leave: list[Instance] = field(default_factory=list)
    #: Those that the resource manager is told to drop, in order.
    released: list[Instance] = field(default_factory=list)

    @property
    def facts(self) -> Snapshot:
        """What the decision is made from."""
        return self.survey.facts

    def go(self, leavers: list[Instance]) -> None:
        """Note that some go because they are not needed."""
        self.leave.extend(leavers)
        self.gained -= workers_in(leavers)

    def release(self, one: Instance, why: str) -> None:
        """Let the resource manager drop one that it was not told to drop before."""
        now = self.facts.now
        moved = one.moved(State.LEAVING, now, why, asked_at=now, tries=1)
        self.released.append(self.survey.change(moved))

    def say(
        self, cause: Cause, instances: Iterable[Instance], **figures: Figure
    ) -> None:
        """Note a reason that speaks of some instances."""
        self.survey.say(cause, names_of(instances), **figures)


def names_of(instances: Iterable[Instance]) -> tuple[str, ...]:
    """Return the names of all workers of some instances."""
    return tuple([name for one in instances for name in one.workers])


def tokens_of(instances: Iterable[Instance]) -> tuple[str, ...]:
    """Return the tokens of some instances."""
    return tuple([one.token for one in instances])
