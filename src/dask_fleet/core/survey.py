"""What one look at the world found: where everybody is, and what happened."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dask_fleet.core.causes import Cause, Figure, Reason
from dask_fleet.core.endings import Ending
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.instance import Instance
from dask_fleet.core.snapshot import Snapshot

_NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True)
class Survey:
    """What one look at the world found.

    Invariant: every instance of the snapshot that is not over is in exactly one of the
    lists, in its newest version.

    Parameters
    ----------
    facts
        The snapshot it was made from.
    """

    facts: Snapshot
    #: Names that the scheduler sees; nobody while it is silent.
    seen: frozenset[str] = _NOBODY
    silent: bool = False
    #: The memory of failed starts with what was found.
    failures: FailureMemory = field(default_factory=FailureMemory)
    #: New versions of instances, by token; instances that are over among them.
    changed: dict[str, Instance] = field(default_factory=dict)
    #: How many of the names that the scheduler sees are in the books.
    matched: int = 0
    #: Names of instances that the scheduler sees for the first time.
    newly_arrived: list[str] = field(default_factory=list)

    # Present: they count towards the target.
    planned: list[Instance] = field(default_factory=list)
    requested: list[Instance] = field(default_factory=list)
    arrived: list[Instance] = field(default_factory=list)
    lost: list[Instance] = field(default_factory=list)
    recalled: list[Instance] = field(default_factory=list)
    # On the way out.
    draining: list[Instance] = field(default_factory=list)
    leaving: list[Instance] = field(default_factory=list)
    failed: list[Instance] = field(default_factory=list)
    #: Part of it is missing for too long; it works on until others do its work.
    broken: list[Instance] = field(default_factory=list)
    #: All of it is missing for too long; it is released in this decision.
    overdue: list[Instance] = field(default_factory=list)

    _wake_at: float = math.inf
    #: What was said, in order: the cause with its figures, and the workers.
    _said: dict[tuple[Cause, tuple[tuple[str, Figure], ...]], list[str]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.silent = self.facts.seen is None
        self.seen = _NOBODY if self.facts.seen is None else self.facts.seen
        self.failures = self.facts.failures

    @property
    def present(self) -> int:
        """Workers that count towards the target."""
        every = (self.planned, self.requested, self.arrived, self.lost, self.recalled)
        return sum(map(workers_in, every))

    def count(self, one: Instance) -> int:
        """How many of an instance's workers the scheduler sees."""
        workers = one.workers
        if len(workers) == 1:
            return 1 if workers[0] in self.seen else 0
        return sum([name in self.seen for name in workers])

    def those_seen(self, one: Instance) -> tuple[str, ...]:
        """Names of an instance's workers that the scheduler sees."""
        return tuple([name for name in one.workers if name in self.seen])

    def those_missing(self, one: Instance) -> tuple[str, ...]:
        """Names of an instance's workers that the scheduler does not see."""
        return tuple([name for name in one.workers if name not in self.seen])

    def change(self, one: Instance) -> Instance:
        """Note a new version of an instance."""
        self.changed[one.token] = one
        return one

    def wake(self, at: float) -> None:
        """Note that time alone changes something at ``at`` (seconds)."""
        if self.facts.now < at < self._wake_at:
            self._wake_at = at

    @property
    def wake_at(self) -> float | None:
        """When time alone changes something first; ``None`` for never."""
        return self._wake_at if self._wake_at < math.inf else None

    def say(self, cause: Cause, workers: Sequence[str], **figures: Figure) -> None:
        """Note a reason. What is true of several in the same words is said once."""
        self._said.setdefault((cause, tuple(figures.items())), []).extend(workers)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """What was said, in order. The figure ``count`` is the number of workers."""
        told = []
        for (cause, items), workers in self._said.items():
            figures: dict[str, Figure] = {"count": len(workers)} if workers else {}
            figures.update(items)
            told.append(Reason(cause, tuple(workers), figures))
        return tuple(told)

    def strike(self, one: Instance, ending: Ending, *, arrived: bool) -> None:
        """Remember a failed start."""
        self.failures = self.failures.struck(
            ending,
            one.round,
            self.facts.now,
            self.facts.settings.patience,
            arrived=arrived,
        )


def workers_in(instances: Iterable[Instance]) -> int:
    """Count the workers of some instances."""
    return sum([len(one.workers) for one in instances])
