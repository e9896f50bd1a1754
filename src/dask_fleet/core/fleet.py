"""The books of one fleet: what is remembered between two decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, KeysView, Mapping
from dataclasses import replace
from itertools import islice
from types import MappingProxyType

from dask_fleet.core.causes import Cause, Reason, because
from dask_fleet.core.commands import Drain, Start, TurnAway
from dask_fleet.core.decide import Decision
from dask_fleet.core.draft import names_of
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
from dask_fleet.core.naming import Named, Namer
from dask_fleet.core.recent import Starts, Target, Targets
from dask_fleet.core.regret import Regret
from dask_fleet.core.settings import Limits, Settings
from dask_fleet.core.snapshot import Ranking, Snapshot, Wanted
from dask_fleet.core.states import REQUESTED_STATES, State

#: At least so many names of workers that are over are known, to turn them away.
DEPARTED_LENGTH = 10_000


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
        #: Names new instances; serials do, if it is ``None``.
        self.namer: Namer | None = None
        #: Tokens of those that somebody chose to leave.
        self._dismissed: set[str] = set()
        #: The scheduler's side can take a drain back.
        self.recallable = recallable
        #: Every instance that is not over, in the order of planning.
        self._instances: dict[str, Instance] = {}
        #: The token of the instance that a worker name belongs to.
        self._homes: dict[str, str] = {}
        #: Endings that were told of and not yet looked at.
        self._endings: dict[str, Ending] = {}
        #: Worker names of instances that are over, oldest first, and from when on one
        #: that the scheduler still sees is turned away.
        self._departed: dict[str, float] = {}
        #: When the scheduler was last told to send a departed one away.
        self._turned_away: dict[str, float] = {}
        self._wanted = Targets()
        #: Whether the last shrink was one too early.
        self._regret = Regret()
        self._started = Starts()
        self._ranking: Ranking | None = None
        self._next_serial = 0
        self._round = 0
        self._hearing_since: float | None = -math.inf

    @property
    def instances(self) -> Mapping[str, Instance]:
        """Every instance that is not over, by token."""
        return MappingProxyType(self._instances)

    @property
    def plan(self) -> set[str]:
        """Names of the workers that should exist."""
        every = self._instances.values()
        return {name for one in every if one.is_present for name in one.workers}

    @property
    def requested(self) -> set[str]:
        """Names that the resource manager accepted and was not told to drop."""
        every = self._instances.values()
        return {
            name
            for one in every
            if one.state in REQUESTED_STATES
            for name in one.workers
        }

    @property
    def departed(self) -> KeysView[str]:
        """Names of workers whose instance is over, as far as remembered."""
        return self._departed.keys()

    @property
    def turned_away(self) -> Mapping[str, float]:
        """Names the scheduler was told to send away, and when (seconds)."""
        return MappingProxyType(self._turned_away)

    def home_of(self, worker: str) -> Instance | None:
        """Return the instance that a worker name belongs to, if it is in the books."""
        token = self._homes.get(worker)
        return None if token is None else self._instances[token]

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
        window = max(self.limits.calm, self._regret.keep)
        self._wanted.note(Wanted(now, self.target.workers), window)
        self.target = Target(workers, by)

    def set_limits(self, limits: Limits, *, now: float) -> None:
        """Replace the limits; a new calm window is seeded with the present size."""
        self.limits = limits
        self._regret = Regret()
        self._wanted.clear()
        self._wanted.note(Wanted(now, len(self.plan)), limits.calm)

    def dismiss(self, tokens: Iterable[str], *, now: float) -> None:
        """Let certain instances go before all others, and without replacement.

        Parameters
        ----------
        tokens
            Those that are not present are passed over.
        now
            Seconds.
        """
        found = (self._instances.get(token) for token in set(tokens) - self._dismissed)
        chosen = [one for one in found if one is not None and one.is_present]
        self._dismissed.update(one.token for one in chosen)
        fewer = sum(one.size for one in chosen)
        self.set_target(max(0, self.target.workers - fewer), now=now)

    def rename(self, token: str, workers: tuple[str, ...]) -> None:
        """Note what the workers of a planned instance are really called.

        Parameters
        ----------
        token
            One whose start was not answered yet.
        workers
            As many names as before.
        """
        for one in self._of((token,), State.PLANNED):
            for name in one.workers:
                self._homes.pop(name, None)
            self._homes.update(dict.fromkeys(workers, token))
            self._put(replace(one, workers=workers))

    def names_ahead(self, target: int) -> tuple[Named, ...] | None:
        """Return names for the instances that a target needs, if they are given.

        Parameters
        ----------
        target
            Workers.
        """
        if self.namer is None:
            return None
        wanted = min(max(target, self.limits.minimum), self.limits.maximum)
        missing = 0 if self.closing else int(wanted) - len(self.plan)
        return self.namer.ahead(missing) if missing > 0 else ()

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
        if seen is None:
            self._hearing_since = None
        elif self._hearing_since is None:
            self._hearing_since = now
        return Snapshot(
            now=now,
            target=self.target.workers,
            instances=self._instances.copy(),
            seen=seen,
            settings=self.settings,
            limits=self.limits,
            endings=self._endings.copy(),
            hearing_since=now if self._hearing_since is None else self._hearing_since,
            departed=self._departed.copy(),
            turned_away=self._turned_away.copy(),
            failures=self.failures,
            wanted=tuple(self._wanted),
            keep=self._regret.keep,
            started=tuple(self._started),
            ranking=self._ranking,
            next_serial=self._next_serial,
            round=self._round,
            prefix=self._prefix,
            names=self.names_ahead(self.target.workers),
            dismissed=frozenset(self._dismissed),
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
        instances, homes = self._instances, self._homes
        for one in decision.changed:
            if one.state is State.GONE:
                self._forget(one, decision.now)
                continue
            if one.token not in instances:
                for name in one.workers:
                    homes[name] = one.token
            instances[one.token] = one
        self._ranking = decision.ranking
        self.failures = decision.failures
        if decision.planned:
            self._next_serial += decision.planned
            self._round += 1
        for command in decision.commands:
            if isinstance(command, TurnAway):
                self._turned_away.update(dict.fromkeys(command.workers, decision.now))
        if self.limits.calm:
            self._learn(decision)
        if self.limits.growth is not None:
            self._started.note(decision.commands, decision.now, self.limits.growth)
        self._trim_departed()
        if self.namer is not None:
            self.namer.settle(decision.planned, self._instances)

    def _learn(self, decision: Decision) -> None:
        """Find out whether workers were let go too soon."""
        for command in decision.commands:
            if isinstance(command, Drain):
                fell = [
                    one.until for one in self._wanted if one.workers > decision.target
                ]
                self._regret = self._regret.shrank(max(fell, default=0), decision.now)
            elif isinstance(command, Start):
                self._regret = self._regret.grew(decision.now, self.limits.calm)

    def _forget(self, one: Instance, now: float) -> None:
        """It is over; its names are known for a while, to turn away who bears them."""
        self._endings.pop(one.token, None)
        self._instances.pop(one.token, None)
        self._dismissed.discard(one.token)
        # The scheduler may take a moment to notice the end of one that it has seen.
        grace = 0.0 if one.seen_at is None else self.settings.deadlines.ask_again
        for name in one.workers:
            self._homes.pop(name, None)
            self._departed[name] = now + grace

    def _trim_departed(self) -> None:
        """Forget the oldest, not at each decision."""
        surplus = len(self._departed) - DEPARTED_LENGTH
        if surplus > DEPARTED_LENGTH:
            self._departed = dict(islice(self._departed.items(), surplus, None))
            known = self._departed.keys() & self._turned_away.keys()
            self._turned_away = {name: self._turned_away[name] for name in known}

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
        self._answered(fact.tokens)
        return []

    def _answered(self, tokens: Iterable[str]) -> None:
        """The answer came after something else had changed the instance's state."""
        for one in self._of(tokens, State.ARRIVED, State.LOST):
            if one.asked_at is not None:
                self._put(one.but(asked_at=None))

    def _refused(self, fact: Refused, now: float) -> list[Reason]:
        refused = self._of(fact.tokens, State.PLANNED)
        ending, patience = fact.ending, self.settings.patience
        for one in refused:
            self._put(one.moved(State.FAILED, now, str(ending)))
            self.failures = self.failures.struck(
                ending, one.round, now, patience, arrived=False
            )
        self._answered(fact.tokens)
        if not refused:
            return []
        names = names_of(refused)
        return [
            because(
                Cause.START_FAILED,
                *names,
                count=len(names),
                kind=str(ending.kind),
                detail=ending.detail,
            )
        ]

    def _ranked(self, fact: Ranked, now: float) -> list[Reason]:
        if self._ranking is not None:
            self._ranking = Ranking(fact.target, now, fact.workers, detail=fact.detail)
        return []

    def _rank_failed(self, fact: RankFailed, now: float) -> list[Reason]:
        if self._ranking is not None:
            self._ranking = replace(self._ranking, at=now, failed=True)
        return [because(Cause.CALL_FAILED, call="workers_to_close", detail=fact.detail)]

    def _retired(self, fact: Retired, now: float) -> list[Reason]:
        # One whose drain was taken back, too late as it turns out, is retired as well.
        retired = self._of(fact.tokens, State.DRAINING)
        back = self._of(fact.tokens, State.ARRIVED, State.LOST)
        retired += [one for one in back if one.asked_at is not None]
        for one in retired:
            self._put(one.moved(State.LEAVING, now, "retired"))
        if not retired:
            return []
        names = names_of(retired)
        return [because(Cause.RETIRED, *names, count=len(names))]

    def _kept(self, fact: Kept, now: float) -> list[Reason]:
        kept = []
        for one in self._of(fact.tokens, State.DRAINING):
            if one.trouble.takeback is Takeback.ASKED:
                self._put(one.moved(State.ARRIVED, now, "taken back"))
                continue
            back = one.moved(State.ARRIVED, now, f"stays: {fact.detail}")
            self._put(back.troubled(kept_at=now))
            kept.append(one)
        self._answered(fact.tokens)
        if not kept:
            return []
        if self._ranking is not None and not self._ranking.is_out:
            self._ranking = replace(self._ranking, at=now)
        names = names_of(kept)
        return [because(Cause.HELD, *names, count=len(names), detail=fact.detail)]

    def _recalled(self, fact: Recalled, now: float) -> list[Reason]:
        # The drain itself still owes its answer; until then no second one is begun.
        for one in self._of(fact.tokens, State.DRAINING):
            self._put(one.moved(State.ARRIVED, now, "taken back", asked_at=now))
        return []

    def _recall_refused(self, fact: RecallRefused, now: float) -> list[Reason]:
        for one in self._of(fact.tokens, State.DRAINING):
            self._put(one.troubled(takeback=Takeback.REFUSED))
        return []

    def _released(self, fact: Released, now: float) -> list[Reason]:
        for one in self._of(fact.tokens, State.LEAVING):
            self._put(one.but(asked_at=None))
        return []

    def _release_failed(self, fact: ReleaseFailed, now: float) -> list[Reason]:
        failed = self._of(fact.tokens, State.LEAVING)
        for one in failed:
            self._put(one.but(asked_at=None).troubled(unreleased=True))
        if not failed:
            return []
        names = names_of(failed)
        return [
            because(Cause.CALL_FAILED, *names, call="scale_down", detail=fact.detail)
        ]

    def _turned(self, fact: TurnedAway, now: float) -> list[Reason]:
        known = [name for name in fact.workers if name in self._departed]
        self._turned_away.update(dict.fromkeys(known, now))
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
