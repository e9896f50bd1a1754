"""Compare the books with the world: the only place where happenings enter the books.

One pass over all instances. Most of them are where they were, so the pass first asks
the cheap question whether anything about an instance is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dask_fleet.core.causes import Cause, Figure, Reason
from dask_fleet.core.endings import NORMAL, Ending, EndingKind
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.instance import Instance, Takeback
from dask_fleet.core.limits import earliest
from dask_fleet.core.snapshot import Snapshot
from dask_fleet.core.states import State

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
    changed
        New versions of instances, by token; instances that are over among them.
    failures
        The memory of failed starts with what was found.
    reasons
        What happened, in the order of the books.
    wake_at
        When time alone changes something.
    matched
        How many of the names that the scheduler sees are in the books.
    """

    facts: Snapshot
    failures: FailureMemory
    changed: dict[str, Instance] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    wake_at: float | None = None
    matched: int = 0
    planned: list[Instance] = field(default_factory=list)
    requested: list[Instance] = field(default_factory=list)
    arrived: list[Instance] = field(default_factory=list)
    broken: list[Instance] = field(default_factory=list)
    lost: list[Instance] = field(default_factory=list)
    draining: list[Instance] = field(default_factory=list)
    recalled: list[Instance] = field(default_factory=list)
    leaving: list[Instance] = field(default_factory=list)
    failed: list[Instance] = field(default_factory=list)
    overdue: list[Instance] = field(default_factory=list)
    newly_arrived: list[str] = field(default_factory=list)

    def present(self) -> int:
        """Workers that count towards the target."""
        every = (
            self.planned,
            self.requested,
            self.arrived,
            self.lost,
            self.recalled,
        )
        return sum(map(workers_in, every))

    def wake(self, at: float) -> None:
        """Note that time alone changes something at ``at`` (seconds)."""
        if at > self.facts.now:
            self.wake_at = earliest(self.wake_at, at)

    def say(self, cause: Cause, workers: tuple[str, ...], **figures: Figure) -> None:
        """Note a reason."""
        self.reasons.append(Reason(cause, workers, figures))

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


def observe(facts: Snapshot) -> Survey:
    """Look at every instance once.

    Parameters
    ----------
    facts
        The snapshot.

    Returns
    -------
    Survey
        The instances by where they are now, and what has happened to them.
    """
    survey = Survey(facts, facts.failures)
    silent = facts.seen is None
    seen = _NOBODY if facts.seen is None else facts.seen
    endings = facts.endings
    arrived = survey.arrived
    whole = 0
    for token, one in facts.instances.items():
        # The common case costs one set operation: arrived, whole and undisturbed.
        if (
            one.state is State.ARRIVED
            and one.whole
            and one.missing_since is None
            and (silent or seen.issuperset(one.workers))
            and token not in endings
        ):
            arrived.append(one)
            whole += len(one.workers)
            continue
        now_one = _look_at(one, endings.get(token), seen, silent, survey)
        survey.matched += sum(name in seen for name in one.workers)
        if now_one is not one:
            survey.changed[token] = now_one
        _sort_in(now_one, survey)
    survey.matched += 0 if silent else whole
    if survey.newly_arrived:
        names = tuple(survey.newly_arrived)
        survey.say(Cause.ARRIVED, names, count=len(names))
    _judge_failures(survey)
    return survey


def _sort_in(one: Instance, survey: Survey) -> None:
    """Put an instance into the one list it belongs to."""
    now = survey.facts.now
    state = one.state
    if state is State.PLANNED:
        survey.planned.append(one)
    elif state is State.REQUESTED:
        survey.requested.append(one)
    elif state is State.ARRIVED:
        if one.missing_since is not None and now >= _whole_by(one, survey):
            survey.broken.append(one)
        else:
            survey.arrived.append(one)
    elif state is State.DRAINING:
        back = one.takeback is Takeback.ASKED
        (survey.recalled if back else survey.draining).append(one)
    elif state is State.LEAVING:
        survey.leaving.append(one)
    elif state is State.FAILED:
        survey.failed.append(one)
    elif state is State.LOST:
        overdue = now >= one.since + survey.facts.settings.deadlines.lost
        (survey.overdue if overdue else survey.lost).append(one)


def _whole_by(one: Instance, survey: Survey) -> float:
    """When an instance of which some workers are missing counts as broken."""
    deadlines = survey.facts.settings.deadlines
    patience = deadlines.lost if one.whole else deadlines.start_fail
    assert one.missing_since is not None
    return one.missing_since + patience


def _look_at(
    one: Instance,
    ending: Ending | None,
    seen: frozenset[str],
    silent: bool,
    survey: Survey,
) -> Instance:
    """Return what an instance has become; say what happened to it."""
    if ending is not None:
        return _ended(one, ending, survey)
    count = sum(name in seen for name in one.workers)
    state = one.state
    if count and state in (State.PLANNED, State.REQUESTED, State.LOST):
        return _came(one, seen, survey)
    if state is State.REQUESTED:
        return _waited_for(one, survey)
    if state is State.ARRIVED and not silent:
        return _checked(one, count, survey)
    if state is State.LOST:
        return _missed(one, survey)
    # While the scheduler is silent it might still be there; when everything is being
    # closed there is nobody left to ask.
    known_away = not count and (not silent or survey.facts.closing)
    if state is State.LEAVING and one.released and known_away:
        return one.moved(State.GONE, survey.facts.now)
    return one


def _ended(one: Instance, ending: Ending, survey: Survey) -> Instance:
    """The resource manager says that it is no more."""
    now = survey.facts.now
    state = one.state
    if state in (State.PLANNED, State.REQUESTED):
        failed = one.moved(State.FAILED, now, str(ending))
        _blame_start(one, ending, survey)
        return failed.moved(State.GONE, now)
    if state in (State.ARRIVED, State.LOST, State.DRAINING):
        _blame_end(one, ending, survey)
        return one.moved(State.GONE, now, str(ending))
    return one.moved(State.GONE, now)


def _blame_start(one: Instance, ending: Ending, survey: Survey) -> None:
    survey.say(
        Cause.START_FAILED, one.workers, kind=str(ending.kind), detail=ending.detail
    )
    if ending.kind not in NORMAL:
        survey.strike(one, ending, arrived=False)


def _blame_end(one: Instance, ending: Ending, survey: Survey) -> None:
    """Say how an instance that had arrived ended; a death at birth is a strike."""
    figures: dict[str, Figure] = {"kind": str(ending.kind), "detail": ending.detail}
    if ending.kind in NORMAL:
        cause = Cause.EXPIRED if one.state is not State.DRAINING else Cause.RETIRED
        survey.say(cause, one.workers, count=one.size, **figures)
        return
    survey.say(Cause.DIED, one.workers, **figures)
    left_at = one.since if one.state is State.LOST else survey.facts.now
    infancy = survey.facts.settings.patience.infancy
    if one.state is not State.DRAINING and one.is_infant(left_at, infancy):
        survey.strike(one, ending, arrived=True)


def _came(one: Instance, seen: frozenset[str], survey: Survey) -> Instance:
    """At least one of its workers is with the scheduler."""
    now = survey.facts.now
    back = one.state is State.LOST
    if one.state is State.PLANNED:
        one = one.moved(State.REQUESTED, now)
    one = one.moved(State.ARRIVED, now)
    if back:
        survey.say(Cause.RETURNED, one.workers)
    else:
        survey.newly_arrived.extend(one.workers)
        one = replace(one, seen_at=now)
    whole = seen.issuperset(one.workers)
    if not whole:
        survey.wake(_whole_by(replace(one, missing_since=now), survey))
    return replace(one, whole=whole or one.whole, missing_since=None if whole else now)


def _waited_for(one: Instance, survey: Survey) -> Instance:
    """Accepted, and not there yet."""
    now, deadlines = survey.facts.now, survey.facts.settings.deadlines
    waited = now - one.since
    if waited >= deadlines.start_fail:
        ending = Ending(
            EndingKind.VANISHED, f"no worker came within {deadlines.start_fail:g} s"
        )
        _blame_start(one, ending, survey)
        return one.moved(State.FAILED, now, str(ending))
    survey.wake(one.since + deadlines.start_fail)
    survey.wake(one.since + deadlines.start_warn)
    if waited >= deadlines.start_warn and not one.warned:
        survey.say(Cause.LATE, one.workers, seconds=waited, detail="")
        return replace(one, warned=True)
    return one


def _checked(one: Instance, count: int, survey: Survey) -> Instance:
    """It had arrived; some or all of its workers may be missing now."""
    now, deadlines = survey.facts.now, survey.facts.settings.deadlines
    if not count:
        survey.say(Cause.LOST, one.workers, seconds=deadlines.lost)
        survey.wake(now + deadlines.lost)
        return one.moved(State.LOST, now)
    if count == one.size:
        return replace(one, whole=True, missing_since=None)
    if one.missing_since is None:
        survey.say(Cause.LOST, one.workers, seconds=deadlines.lost)
        one = replace(one, missing_since=now)
    survey.wake(_whole_by(one, survey))
    return one


def _missed(one: Instance, survey: Survey) -> Instance:
    """It had disappeared and is not back."""
    survey.wake(one.since + survey.facts.settings.deadlines.lost)
    return one


def _judge_failures(survey: Survey) -> None:
    """Forget failures once a later round has brought workers that live."""
    memory = survey.failures
    if not memory.strikes:
        return
    patience, now = survey.facts.settings.patience, survey.facts.now
    for one in survey.arrived:
        if one.round > memory.round and one.seen_at is not None:
            if now >= one.seen_at + patience.infancy:
                survey.failures = memory.cleared()
                return
            survey.wake(one.seen_at + patience.infancy)
            if now >= one.seen_at + patience.proof:
                survey.failures = memory.arrived()
