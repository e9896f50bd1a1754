"""Names that somebody gives, and instances that somebody chooses to leave."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dask_fleet.core import (
    Accepted,
    AskRanking,
    Drain,
    Ended,
    Ending,
    EndingKind,
    Fleet,
    Instance,
    Ranked,
    Release,
    Settings,
    Start,
    decide,
)
from dask_fleet.core.decide import Decision
from dask_fleet.core.naming import Named


class Names:
    """A list of names; notes what was used."""

    def __init__(self, *named: Named) -> None:
        self.left = list(named)
        self.plans: list[set[str]] = []

    def ahead(self, workers: int) -> tuple[Named, ...]:
        self.asked = workers
        return tuple(self.left)

    def settle(self, planned: int, instances: Mapping[str, Instance]) -> None:
        del self.left[:planned]
        self.plans.append({one.token for one in instances.values() if one.is_present})


def single(*names: str) -> Names:
    return Names(*((name, (name,)) for name in names))


def fleet(namer: Names, target: int, size: int = 1) -> Fleet:
    made = Fleet(Settings(workers_per_instance=size), recallable=True)
    made.namer = namer
    made.set_target(target, now=0.0)
    return made


def look(books: Fleet, now: float, *seen: str) -> Decision:
    decision = decide(books.snapshot(now, frozenset(seen)))
    books.commit(decision)
    return decision


def started(books: Fleet) -> tuple[str, ...]:
    """Let all that is planned arrive."""
    (start,) = look(books, 0.0).commands
    assert isinstance(start, Start)
    books.apply(Accepted(start.tokens), 0.1)
    look(books, 0.2, *start.workers)
    return start.workers


def test_instances_bear_the_names_that_are_given() -> None:
    names = single("my-worker", "my-nanny")
    assert started(fleet(names, 2)) == ("my-worker", "my-nanny")
    assert names.left == []


def test_without_a_namer_serials_are_used() -> None:
    books = Fleet()
    books.set_target(2, now=0.0)
    assert started(books) == ("0", "1")


def test_what_cannot_be_named_yet_is_planned_at_the_next_look() -> None:
    books = fleet(Names(), 1)
    decision = look(books, 0.0)
    assert (decision.commands, decision.after) == ((), 0)
    assert decision.wake_at == pytest.approx(0.01)
    books.namer = single("a")
    assert look(books, 0.01).after == 1


def test_names_that_are_not_needed_stay_for_later() -> None:
    names = single("a", "b", "c")
    books = fleet(names, 1)
    assert started(books) == ("a",)
    assert [token for token, _ in names.left] == ["b", "c"]
    books.set_target(2, now=1.0)
    (start,) = look(books, 1.0, "a").commands
    assert isinstance(start, Start)
    assert start.workers == ("b",)


def test_a_dead_worker_is_replaced_under_the_next_name() -> None:
    names = single("a", "b", "c")
    books = fleet(names, 2)
    started(books)
    books.apply(Ended("a", Ending(EndingKind.CRASHED, "exit code 1")), 30.0)
    look(books, 30.0, "b")
    look(books, 30.01, "b")
    assert books.plan == {"b", "c"}
    assert names.asked == 1


def test_a_lost_worker_is_replaced_under_the_next_name() -> None:
    books = fleet(single("a", "b", "c"), 2)
    started(books)
    look(books, 30.0, "b")
    look(books, 30.0 + books.settings.deadlines.lost, "b")
    look(books, 30.01 + books.settings.deadlines.lost, "b")
    assert books.plan == {"b", "c"}


def test_instances_of_different_sizes_hold_the_target() -> None:
    names = Names(("x", ("x-0", "x-1", "x-2")), ("y", ("y-0", "y-1")))
    books = fleet(names, 5, size=3)
    assert started(books) == ("x-0", "x-1", "x-2", "y-0", "y-1")
    books.set_target(3, now=1.0)
    (ask,) = look(books, 1.0, *books.plan).commands
    assert ask == AskRanking(3, 2)
    ranked = ("x-0", "x-1", "x-2", "y-0", "y-1")
    books.apply(Ranked(3, ranked), 1.1)
    (drain,) = look(books, 1.1, *books.plan).commands
    assert isinstance(drain, Drain)
    assert drain.tokens == ("y",)  # the larger one would leave fewer than the target


def test_the_plan_is_told_after_each_decision() -> None:
    names = single("a", "b")
    books = fleet(names, 2)
    started(books)
    assert names.plans == [{"a", "b"}, {"a", "b"}]


def test_whoever_is_dismissed_leaves_before_a_cheaper_one() -> None:
    books = fleet(single("a", "b", "c"), 3)
    started(books)
    books.dismiss(["a"], now=1.0)
    assert books.target.workers == 2
    look(books, 1.0, "a", "b", "c")
    books.apply(Ranked(2, ("c", "b", "a")), 1.1)
    (drain,) = look(books, 1.1, "a", "b", "c").commands
    assert isinstance(drain, Drain)
    assert drain.tokens == ("a",)


def test_whoever_is_dismissed_leaves_before_one_that_has_not_arrived() -> None:
    books = fleet(single("a", "b"), 1)
    started(books)
    books.set_target(2, now=1.0)
    look(books, 1.0, "a")
    books.apply(Accepted(("b",)), 1.1)
    books.dismiss(["a"], now=2.0)
    (ask,) = look(books, 2.0, "a").commands
    assert isinstance(ask, AskRanking)
    assert books.plan == {"a", "b"}
    books.apply(Ranked(1, ()), 2.1)
    (drain,) = look(books, 2.1, "a").commands
    assert isinstance(drain, Drain)
    assert drain.tokens == ("a",)


def test_of_those_on_their_way_the_dismissed_one_is_withdrawn() -> None:
    books = fleet(single("a", "b"), 2)
    look(books, 0.0)
    books.apply(Accepted(("a", "b")), 0.1)
    books.dismiss(["a"], now=1.0)
    (release,) = look(books, 1.0).commands
    assert isinstance(release, Release)
    assert release.tokens == ("a",)


@pytest.mark.parametrize("who", [["a", "a"], ["a", "stranger"]])
def test_dismissing_counts_each_once(who: list[str]) -> None:
    books = fleet(single("a", "b"), 2)
    started(books)
    books.dismiss(who, now=1.0)
    books.dismiss(who, now=1.1)
    assert books.target.workers == 1


def test_a_worker_that_is_called_otherwise_is_awaited_by_that_name() -> None:
    books = fleet(single("0"), 1)
    (start,) = look(books, 0.0).commands
    assert isinstance(start, Start)
    books.rename("0", ("vm-77",))
    books.apply(Accepted(start.tokens), 0.1)
    assert books.plan == {"vm-77"}
    arrived = look(books, 1.0, "vm-77")
    assert arrived.arrived == 1
    assert books.home_of("vm-77") is not None
    assert books.home_of("0") is None
