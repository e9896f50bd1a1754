"""What must hold after each decision, whatever happens."""

from __future__ import annotations

from collections import Counter

from dask_fleet.core import (
    AskRanking,
    Decision,
    Drain,
    Fact,
    Fleet,
    Instance,
    Recall,
    Release,
    Snapshot,
    Start,
    State,
    decide,
)
from dask_fleet.core.observe import observe
from dask_fleet.core.survey import Survey


class Checks:
    """Looks over the core's shoulder; raises ``AssertionError`` if a rule is broken."""

    def __init__(self) -> None:
        #: Kinds of commands whose answer is out, by token.
        self._out: dict[str, set[type]] = {}
        self._used: set[str] = set()

    def decided(self, facts: Snapshot, decision: Decision) -> None:
        """Check a decision before it is committed."""
        _check_buckets(facts)
        _check_one_direction(facts, decision)
        _check_size(facts, decision)
        wake_at = decision.wake_at
        assert wake_at is None or facts.now < wake_at < float("inf"), wake_at
        for command in decision.commands:
            if isinstance(command, Start):
                self._check_start(facts, command)
            elif isinstance(command, Drain):
                self._check_drain(facts, command)
            elif isinstance(command, Release):
                self._check_release(facts, command)
            elif isinstance(command, Recall):
                for token in command.tokens:
                    self._note(token, Recall, besides={Drain})
                    assert facts.instances[token].state is State.DRAINING
            elif isinstance(command, AskRanking):
                assert facts.seen is not None, "the scheduler is silent"

    def committed(
        self, fleet: Fleet, decision: Decision, seen: frozenset[str] | None
    ) -> None:
        """Check the books after a decision: the same again gives nothing more."""
        again = decide(fleet.snapshot(decision.now, seen))
        assert again.commands == (), f"same again: {again.commands}"
        assert again.changed == (), f"same again: {again.changed}"
        assert again.before == decision.after, (decision, again)
        if again.wake_at is not None:
            assert decision.wake_at is not None, again
            assert decision.wake_at <= again.wake_at, (decision, again)
        size = sum(one.size for one in fleet.instances.values() if one.is_present)
        assert len(fleet.plan) == size == decision.after, (fleet.plan, decision)

    def answered(self, fact: Fact) -> None:
        """Note that an answer is there."""
        kinds = _ANSWERS.get(type(fact).__name__)
        for token in getattr(fact, "tokens", ()) if kinds else ():
            self._out.get(token, set()).discard(kinds)

    def _note(self, token: str, kind: type, besides: set[type] | None = None) -> None:
        out = self._out.setdefault(token, set())
        others = {one.__name__ for one in out - (besides or set())}
        assert not others, f"{kind.__name__} of {token} while {others} is out"
        out.add(kind)

    def _check_start(self, facts: Snapshot, command: Start) -> None:
        assert not facts.closing, "started while closing"
        for token in command.tokens:
            self._note(token, Start)
        names = set(command.workers)
        assert len(names) == len(command.workers)
        assert self._used.isdisjoint(names), "a name is given to a second process"
        self._used |= names

    def _check_drain(self, facts: Snapshot, command: Drain) -> None:
        assert facts.seen is not None, "drained while the scheduler is silent"
        for token in command.tokens:
            self._note(token, Drain)
            assert _version(facts, token).state is State.ARRIVED

    def _check_release(self, facts: Snapshot, command: Release) -> None:
        """Nothing that works is dropped unless it was drained before."""
        for token in command.tokens:
            one = _version(facts, token)
            hopeless = facts.closing or one.state is State.LOST
            # A recall may come too late: the answer to the drain is what counts.
            besides: set[type] = {Start, Drain, Recall} if hopeless else {Recall}
            self._note(token, Release, besides)
            if hopeless or one.state in (State.LEAVING, State.FAILED, State.REQUESTED):
                continue
            assert one.state is State.ARRIVED, one
            assert one.trouble.broken, one
            assert facts.seen is not None, one
            assert facts.seen.isdisjoint(one.workers), one


_ANSWERS: dict[str, type] = {
    "Accepted": Start,
    "Refused": Start,
    "Retired": Drain,
    "Kept": Drain,
    "Recalled": Recall,
    "RecallRefused": Recall,
    "Released": Release,
    "ReleaseFailed": Release,
}


def _version(facts: Snapshot, token: str) -> Instance:
    """Return an instance as it was found, before anything was decided."""
    survey = observe(facts)
    return survey.changed.get(token, facts.instances[token])


def buckets(survey: Survey) -> dict[str, list[Instance]]:
    """Return everybody by where they are."""
    names = (
        "planned",
        "requested",
        "arrived",
        "lost",
        "recalled",
        "draining",
        "leaving",
        "failed",
        "broken",
        "overdue",
    )
    return {name: getattr(survey, name) for name in names}


def _check_buckets(facts: Snapshot) -> None:
    """Each instance is in exactly one list, or over."""
    survey = observe(facts)
    found = Counter(one.token for every in buckets(survey).values() for one in every)
    over = {token for token, one in survey.changed.items() if one.state is State.GONE}
    assert set(found.values()) <= {1}, found
    assert found.keys() | over == facts.instances.keys(), (found, over)
    assert found.keys().isdisjoint(over), (found, over)


def _check_one_direction(facts: Snapshot, decision: Decision) -> None:
    """No decision adds and takes away for the sake of the target."""
    adds = decision.planned or any(isinstance(c, Recall) for c in decision.commands)
    takes = decision.leave or any(isinstance(c, AskRanking) for c in decision.commands)
    assert not (adds and takes), decision


def _check_size(facts: Snapshot, decision: Decision) -> None:
    """Never above what is allowed by own doing, and never below by own doing."""
    if facts.closing:
        return
    step = facts.settings.workers_per_instance
    most = max(decision.before, decision.allowed + step - 1)
    assert decision.after <= most, decision
    assert decision.after >= min(decision.before, decision.allowed), decision
