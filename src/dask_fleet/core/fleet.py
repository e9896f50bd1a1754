"""The books of one fleet: what is remembered between two decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from dask_fleet.core.causes import Cause, Reason
from dask_fleet.core.commands import Start
from dask_fleet.core.decide import Decision
from dask_fleet.core.endings import Ending
from dask_fleet.core.facts import (
    Accepted,
    Ended,
    Fact,
    Kept,
    Ranked,
    RankFailed,
    Recalled,
    RecallRefused,
    Refused,
    Released,
    ReleaseFailed,
    Retired,
    TurnedAway,
)
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.instance import Instance, Takeback
from dask_fleet.core.settings import Limits, Settings
from dask_fleet.core.snapshot import Ranking, Snapshot, Started, Wanted
from dask_fleet.core.states import PRESENT, REQUESTED_STATES, State

#: Names of workers that are over and are still known, to turn them away.
DEPARTED_LENGTH = 10_000


@dataclass(slots=True)
class Target:
    """The number of workers that should exist, and who said so."""

    workers: int = 0
    by: Cause = Cause.SCALED


class Fleet:
    """What is remembered of one fleet; all changes go through its methods.

    Parameters
    ----------
    settings
        Numbers to decide by.
    limits
        What the limiters hold the target to; replaced by ``set_limits``.
    prefix
        Put before the serial in each token.
    recallable
        The scheduler's side can take a drain back.

    Examples
    --------
    >>> from dask_fleet.core import decide
    >>> fleet = Fleet()
    >>> fleet.set_target(2, now=0.0)
    >>> decision = decide(fleet.snapshot(0.0, frozenset()))
    >>> fleet.commit(decision)
    >>> sorted(fleet.plan)
    ['0', '1']
    >>> fleet.apply(Accepted(("0", "1")), now=0.1)
    []
    >>> decide(fleet.snapshot(0.2, frozenset({"0", "1"}))).commands
    ()
    """

    def __init__(
        self,
        settings: Settings | None = None,
        limits: Limits | None = None,
        *,
        prefix: str = "",
        recallable: bool = False,
    ) -> None:
        self.settings = settings or Settings()
        self.limits = limits or Limits()
        self.target = Target()
        self.failures = FailureMemory()
        self.closing = False
        self._prefix = prefix
        #: The scheduler's side can take a drain back.
        self.recallable = recallable
        #: Every instance that is not over, in the order of planning.
        self._instances: dict[str, Instance] = {}
        #: Endings that were told of and not yet looked at.
        self._endings: dict[str, Ending] = {}
        #: Worker names of instances that are over, oldest first.
        self._departed: deque[str] = deque(maxlen=DEPARTED_LENGTH)
        self._turned_away: dict[str, float] = {}
        #: Earlier targets; strictly falling, oldest first: a later one that was not
        #: lower makes an earlier one irrelevant for the calm window.
        self._wanted: deque[Wanted] = deque()
        self._started: deque[Started] = deque()
        self._ranking: Ranking | None = None
        self._next_serial = 0
        self._round = 0

    @property
    def instances(self) -> Mapping[str, Instance]:
        """Every instance that is not over, by token."""
        return MappingProxyType(self._instances)

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist."""
        return self._names(PRESENT)

    @property
    def requested(self) -> set[str]:
        """Names that the resource manager accepted and was not told to drop."""
        return self._names(REQUESTED_STATES)

    @property
    def turned_away(self) -> Mapping[str, float]:
        """Names the scheduler was told to send away, and when (seconds)."""
        return MappingProxyType(self._turned_away)

    def _names(self, states: frozenset[State]) -> set[str]:
        return {
            name
            for one in self._instances.values()
            if one.state in states
            for name in one.workers
        }

    def home_of(self, worker: str) -> Instance | None:
        """Return the instance that a worker name belongs to, if it is in the books."""
        for one in self._instances.values():
            if worker in one.workers:
                return one
        return None

    def set_target(self, workers: int, *, now: float, by: Cause = Cause.SCALED) -> None:
        """Set how many workers should exist.

        Parameters
        ----------
        workers
            The number.
        now
            Seconds.
        by
            Who says so.
        """
        self._remember_wanted(Wanted(now, self.target.workers))
        self.target = Target(workers, by)

    def set_limits(self, limits: Limits, *, now: float) -> None:
        """Replace the limits; a new calm window is seeded with the present size."""
        self.limits = limits
        self._wanted.clear()
        present = sum(
            one.size for one in self._instances.values() if one.state in PRESENT
        )
        self._remember_wanted(Wanted(now, present))

    def _remember_wanted(self, one: Wanted) -> None:
        while self._wanted and self._wanted[-1].workers <= one.workers:
            self._wanted.pop()
        while self._wanted and self._wanted[0].until + self.limits.calm < one.until:
            self._wanted.popleft()
        if self.limits.calm:
            self._wanted.append(one)

    def forgive(self) -> None:
        """Forget failed starts: somebody asks anew."""
        self.failures = self.failures.cleared()

    def snapshot(self, now: float, seen: frozenset[str] | None) -> Snapshot:
        """Collect the facts.

        Parameters
        ----------
        now
            Seconds.
        seen
            Names of the workers that the scheduler sees; ``None`` if it is silent.
        """
        return Snapshot(
            now=now,
            target=self.target.workers,
            instances=self._instances,
            seen=seen,
            settings=self.settings,
            limits=self.limits,
            endings=self._endings,
            departed=frozenset(self._departed),
            turned_away=self._turned_away,
            failures=self.failures,
            wanted=tuple(self._wanted),
            started=tuple(self._started),
            ranking=self._ranking,
            next_serial=self._next_serial,
            round=self._round,
            prefix=self._prefix,
            recallable=self.recallable,
            closing=self.closing,
        )

    def commit(self, decision: Decision) -> None:
        """Bring the books up to date with a decision made from their snapshot.

        Parameters
        ----------
        decision
            Made from the last snapshot; nothing may have been applied in between.
        """
        for one in decision.changed:
            if one.state is State.GONE:
                self._instances.pop(one.token, None)
                self._departed.extend(one.workers)
            else:
                self._instances[one.token] = one
        self._endings.clear()
        self._ranking = decision.ranking
        self.failures = decision.failures
        if decision.planned:
            self._next_serial += decision.planned
            self._round += 1
        self._count_starts(decision)

    def _count_starts(self, decision: Decision) -> None:
        growth = self.limits.growth
        if growth is None:
            return
        while self._started and self._started[0].at <= decision.now - growth.period:
            self._started.popleft()
        for command in decision.commands:
            if isinstance(command, Start):
                self._started.append(Started(decision.now, len(command.workers)))

    def apply(self, fact: Fact, now: float) -> list[Reason]:
        """Take note of what became of a command or of an instance.

        A fact that comes too late, for an instance that is elsewhere by now, changes
        nothing.

        Parameters
        ----------
        fact
            What happened.
        now
            Seconds.

        Returns
        -------
        list of Reason
            What should be told to the user.
        """
        return _HANDLERS[type(fact)](self, fact, now)

    def _of(self, tokens: Iterable[str], *states: State) -> list[Instance]:
        """Return those of some instances that are in one of some states."""
        found = (self._instances.get(token) for token in tokens)
        return [one for one in found if one is not None and one.state in states]

    def _put(self, one: Instance) -> None:
        self._instances[one.token] = one

    def _accepted(self, fact: Accepted, now: float) -> list[Reason]:
        for one in self._of(fact.tokens, State.PLANNED):
            self._put(one.moved(State.REQUESTED, now))
        return []

    def _refused(self, fact: Refused, now: float) -> list[Reason]:
        refused = self._of(fact.tokens, State.PLANNED)
        for one in refused:
            self._put(one.moved(State.FAILED, now, str(fact.ending)))
            self.failures = self.failures.struck(
                fact.ending, one.round, now, self.settings.patience, arrived=False
            )
        if not refused:
            return []
        names = tuple(name for one in refused for name in one.workers)
        figures = {"kind": str(fact.ending.kind), "detail": fact.ending.detail}
        return [Reason(Cause.START_FAILED, names, figures)]

    def _ranked(self, fact: Ranked, now: float) -> list[Reason]:
        if self._ranking is not None:
            self._ranking = Ranking(
                fact.target, now, fact.workers, detail=fact.detail
            )
        return []

    def _rank_failed(self, fact: RankFailed, now: float) -> list[Reason]:
        if self._ranking is not None:
            self._ranking = replace(self._ranking, at=now, failed=True)
        figures = {"call": "workers_to_close", "detail": fact.detail}
        return [Reason(Cause.CALL_FAILED, figures=figures)]

    def _retired(self, fact: Retired, now: float) -> list[Reason]:
        retired = self._of(fact.tokens, State.DRAINING)
        for one in retired:
            self._put(one.moved(State.LEAVING, now, "retired"))
        if not retired:
            return []
        names = tuple(name for one in retired for name in one.workers)
        return [Reason(Cause.RETIRED, names, {"count": len(names)})]

    def _kept(self, fact: Kept, now: float) -> list[Reason]:
        kept = self._of(fact.tokens, State.DRAINING)
        for one in kept:
            self._put(one.moved(State.ARRIVED, now, f"stays: {fact.detail}"))
        if not kept:
            return []
        if self._ranking is not None:
            self._ranking = replace(self._ranking, at=now)
        names = tuple(name for one in kept for name in one.workers)
        return [Reason(Cause.HELD, names, {"count": len(names), "detail": fact.detail})]

    def _recalled(self, fact: Recalled, now: float) -> list[Reason]:
        for one in self._of(fact.tokens, State.DRAINING):
            self._put(one.moved(State.ARRIVED, now, "taken back"))
        return []

    def _recall_refused(self, fact: RecallRefused, now: float) -> list[Reason]:
        for one in self._of(fact.tokens, State.DRAINING):
            self._put(replace(one, takeback=Takeback.REFUSED))
        return []

    def _released(self, fact: Released, now: float) -> list[Reason]:
        for one in self._of(fact.tokens, State.LEAVING):
            self._put(replace(one, asked_at=None, released=True))
        return []

    def _release_failed(self, fact: ReleaseFailed, now: float) -> list[Reason]:
        failed = self._of(fact.tokens, State.LEAVING)
        for one in failed:
            self._put(replace(one, asked_at=None, released=False))
        if not failed:
            return []
        names = tuple(name for one in failed for name in one.workers)
        figures = {"call": "scale_down", "detail": fact.detail}
        return [Reason(Cause.CALL_FAILED, names, figures)]

    def _turned(self, fact: TurnedAway, now: float) -> list[Reason]:
        self._turned_away.update(dict.fromkeys(fact.workers, now))
        return []

    def _ended(self, fact: Ended, now: float) -> list[Reason]:
        if fact.token in self._instances:
            self._endings.setdefault(fact.token, fact.ending)
        return []


_HANDLERS: dict[type, Callable[..., list[Reason]]] = {
    Accepted: Fleet._accepted,
    Refused: Fleet._refused,
    Ranked: Fleet._ranked,
    RankFailed: Fleet._rank_failed,
    Retired: Fleet._retired,
    Kept: Fleet._kept,
    Recalled: Fleet._recalled,
    RecallRefused: Fleet._recall_refused,
    Released: Fleet._released,
    ReleaseFailed: Fleet._release_failed,
    TurnedAway: Fleet._turned,
    Ended: Fleet._ended,
}
