"""What a simulated resource manager runs, and what a simulated scheduler sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dask_fleet.testing.fates import Fate


@dataclass(slots=True)
class Machine:
    """One instance as it really is.

    Parameters
    ----------
    token, workers
        Its names.
    fate
        What becomes of its start.
    runs
        The resource manager has it; it may cost money.
    ordered
        The resource manager was told to drop it.
    retired
        The scheduler drained it and moved its results away.
    draining
        The scheduler is doing so.
    recalled
        That was taken back.
    stubborn
        How often it will not go when told to.
    """

    token: str
    workers: tuple[str, ...]
    fate: Fate
    runs: bool = True
    ordered: bool = False
    retired: bool = False
    draining: bool = False
    recalled: bool = False
    stubborn: int = 0


@dataclass(slots=True)
class Scheduler:
    """Who is there, as a scheduler sees it."""

    seen: set[str] = field(default_factory=set)
    silent: bool = False
    #: Names of workers that it refuses to retire.
    needed: set[str] = field(default_factory=set)
    #: Names of workers that run tasks; they are ranked last.
    busy: set[str] = field(default_factory=set)

    def view(self) -> frozenset[str] | None:
        """Return the names it sees; ``None`` while it is silent."""
        return None if self.silent else frozenset(self.seen)

    def rank(self) -> list[str]:
        """Return who may leave, cheapest first."""
        may_go = self.seen - self.needed
        return sorted(may_go, key=lambda name: (name in self.busy, len(name), name))

    def forget(self, names: Iterable[str]) -> None:
        """See some no more."""
        self.seen.difference_update(names)
