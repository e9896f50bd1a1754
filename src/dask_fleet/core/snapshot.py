"""The facts that a decision is made from, all of them, at one moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dask_fleet.core.endings import Ending
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.instance import Instance
from dask_fleet.core.naming import Named
from dask_fleet.core.settings import Limits, Settings


@dataclass(frozen=True, slots=True)
class Ranking:
    """The question who should leave, and the answer once it is there.

    Parameters
    ----------
    target
        The number of workers it was asked for.
    at
        When it was asked or answered, in seconds.
    workers
        Names, cheapest first; ``None`` while the answer is out. An answer serves the
        first decision after it and is empty from then on.
    failed
        Nobody could say; asked again later.
    detail
        Why fewer workers were named than asked for; empty if there were enough.
    """

    target: int
    at: float
    workers: tuple[str, ...] | None = None
    failed: bool = False
    detail: str = ""

    @property
    def is_out(self) -> bool:
        """The question was asked and neither answered nor given up."""
        return self.workers is None and not self.failed


@dataclass(frozen=True, slots=True)
class Wanted:
    """A target that was in force until ``until`` (seconds)."""

    until: float
    workers: int


@dataclass(frozen=True, slots=True)
class Started:
    """So many workers were asked for at ``at`` (seconds)."""

    at: float
    workers: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All facts of one moment. Nothing in it changes afterwards.

    Parameters
    ----------
    now
        Seconds, of a clock that never goes back.
    target
        Workers that somebody wants to exist.
    instances
        The books: every instance that is not over, by token.
    seen
        Names of the workers that the scheduler sees; ``None`` if it is silent.
    settings, limits
        Numbers to decide by.
    endings
        Instances that the resource manager says are no more, by token.
    hearing_since
        Since when the scheduler has answered without a break (seconds). What depends on
        its word is given the full time from then on.
    departed
        Worker names of instances that are over, as far as remembered, and from when on
        (seconds) one that the scheduler still sees is turned away.
    turned_away
        Those of them that it was told to send away, and when last (seconds).
    failures
        The memory of failed starts.
    wanted
        Earlier targets, as far as the calm window needs them, oldest first.
    started
        Recent starts, as far as the growth rate needs them, oldest first.
    ranking
        The last question who should leave.
    keep
        Seconds for which surplus is kept at least, learnt from having let go too soon.
    next_serial, round, prefix
        For the tokens of new instances and their batch.
    names
        Tokens and worker names of the instances that come next, if somebody names
        them: enough for what is known to be missing. ``None``: serials are used.
    dismissed
        Tokens of instances that somebody chose to leave: they go first.
    recallable
        The scheduler's side can take a drain back.
    closing
        Everything must go, at once and without asking the scheduler.
    """

    now: float
    target: int
    instances: Mapping[str, Instance]
    seen: frozenset[str] | None
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    endings: Mapping[str, Ending] = field(default_factory=dict)
    hearing_since: float = -math.inf
    departed: Mapping[str, float] = field(default_factory=dict)
    turned_away: Mapping[str, float] = field(default_factory=dict)
    failures: FailureMemory = field(default_factory=FailureMemory)
    wanted: tuple[Wanted, ...] = ()
    started: tuple[Started, ...] = ()
    ranking: Ranking | None = None
    keep: float = 0.0
    next_serial: int = 0
    round: int = 0
    prefix: str = ""
    names: tuple[Named, ...] | None = None
    dismissed: frozenset[str] = frozenset()
    recallable: bool = False
    closing: bool = False
