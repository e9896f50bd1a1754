from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from dask_fleet.cluster.performer import Performer
from dask_fleet.core import (
    Accepted,
    AskRanking,
    Command,
    Drain,
    Ending,
    EndingKind,
    Fact,
    Kept,
    Ranked,
    RankFailed,
    Recall,
    Recalled,
    RecallRefused,
    Refused,
    Release,
    Released,
    ReleaseFailed,
    Retired,
    Start,
    TurnAway,
    TurnedAway,
)
from tests.cluster.clock import run_virtual

LIMIT = 60.0

#: Instance "a" has one worker, "p" is a pair.
WORKERS = {"a": ("a",), "b": ("b",), "p": ("p-0", "p-1")}

START = Start(("a", "p"), ("a", "p-0", "p-1"))
RELEASE = Release(("a", "b"), ("a", "b"))
DRAIN = Drain(("a", "p"), ("a", "p-0", "p-1"))
RECALL = Recall(("a", "p"), ("a", "p-0", "p-1"))
RANK = AskRanking(1, 2)
TURN_AWAY = TurnAway(("x",))

Hook = Callable[..., Awaitable[Any]]


def gives(value: object) -> Hook:
    async def hook(*_: object) -> Any:
        return value

    return hook


def raises(error: BaseException) -> Hook:
    async def hook(*_: object) -> Any:
        raise error

    return hook


def raises_at_once(error: Exception) -> Hook:
    """Not even a coroutine comes of it."""

    def hook(*_: object) -> Any:
        raise error

    return hook


def is_plain(value: object) -> Hook:
    """A plain function, which cannot be awaited."""
    return lambda *_: value  # type: ignore[return-value]


async def hangs(*_: object) -> Any:
    await asyncio.sleep(math.inf)


async def does_not_listen(*_: object) -> Any:
    """Hangs, and goes on when it is told to end."""
    while True:
        try:
            await asyncio.sleep(math.inf)
        except asyncio.CancelledError:  # noqa: PERF203
            if asyncio.get_running_loop().time() > 10 * LIMIT:
                raise


async def fails_late(*_: object) -> Any:
    """Hangs, and raises something of its own when it is told to end."""
    try:
        await asyncio.sleep(math.inf)
    except asyncio.CancelledError:
        raise OSError("late") from None


class Manager:
    def __init__(self, hook: Any) -> None:
        self.scale_up = self.scale_down = self.workers_to_close = hook


class Scheduler:
    """The scheduler's side, with everything made up."""

    def __init__(
        self, ended: object = (), hook: Any = None, seen: Sequence[str] = ()
    ) -> None:
        self.ended = ended
        done: Any = gives(set())
        self.recall = self.turn_away = hook or done
        self.seen = seen
        self.left: list[list[str]] = []

    async def leave(
        self, instances: Sequence[Sequence[str]]
    ) -> AsyncIterator[tuple[str, str]]:
        self.left += [list(names) for names in instances]
        if isinstance(self.ended, Exception):
            raise self.ended
        assert isinstance(self.ended, Sequence)
        for one in self.ended:
            if isinstance(one, Exception):
                raise one
            yield one

    def sees(self, workers: Sequence[str]) -> bool:
        return any(name in self.seen for name in workers)

    def why_not_more(self) -> str:
        return "no room"


def performer(
    hook: Hook | None = None, scheduler: Scheduler | None = None, closing: bool = False
) -> Performer:
    return Performer(
        Manager(hook or gives(None)),
        scheduler or Scheduler(),
        lambda token: WORKERS.get(token, ()),
        LIMIT,
        lambda: closing,
    )


def facts(made: Performer, *commands: Command) -> list[Fact]:
    """All that comes of some commands; those that name nobody are left out."""

    async def main() -> list[Fact]:
        found = [fact for one in commands async for fact in made.perform(one)]
        return [fact for fact in found if getattr(fact, "tokens", True)]

    return run_virtual(main())


def rejected(why: str) -> Ending:
    return Ending(EndingKind.REJECTED, why)


# -- whatever a hook does, there is an answer ------------------------------------------

BROKEN = [
    (raises(OSError("no such queue")), "no such queue"),
    (raises(KeyError("x")), "KeyError: 'x'"),
    (raises(asyncio.CancelledError()), "was cancelled"),
    (raises(asyncio.TimeoutError()), "TimeoutError()"),
    (raises_at_once(ValueError("at once")), "at once"),
    (is_plain(None), "TypeError: An asyncio.Future"),
    (hangs, "did not return within 60 s"),
    (does_not_listen, "did not return within 60 s"),
    (fails_late, "did not return within 60 s"),
]


@pytest.mark.parametrize(("hook", "words"), BROKEN)
def test_scale_up_that_fails_refuses_all(hook: Hook, words: str) -> None:
    (fact,) = facts(performer(hook), START)
    assert isinstance(fact, Refused)
    assert fact.tokens == ("a", "p")
    assert fact.ending.kind is EndingKind.REJECTED
    assert words in fact.ending.detail


@pytest.mark.parametrize(("hook", "words"), BROKEN)
def test_scale_down_that_fails_is_told(hook: Hook, words: str) -> None:
    (fact,) = facts(performer(hook), RELEASE)
    assert isinstance(fact, ReleaseFailed)
    assert fact.tokens == ("a", "b")
    assert words in fact.detail


@pytest.mark.parametrize(("hook", "words"), BROKEN)
def test_workers_to_close_that_fails_is_told(hook: Hook, words: str) -> None:
    (fact,) = facts(performer(hook), RANK)
    assert isinstance(fact, RankFailed)
    assert words in fact.detail


@pytest.mark.parametrize(("hook", "words"), BROKEN)
def test_recall_and_turn_away_that_fail_have_their_answer(
    hook: Hook, words: str
) -> None:
    broken = performer(scheduler=Scheduler(hook=hook))
    assert facts(broken, RECALL) == [RecallRefused(("a", "p"))]
    assert facts(broken, TURN_AWAY) == [TurnedAway(("x",))]


@pytest.mark.parametrize("error", [OSError("broken"), KeyError(), TypeError("odd")])
def test_a_drain_that_fails_keeps_those_not_yet_told_of(error: Exception) -> None:
    first, *rest = facts(performer(scheduler=Scheduler([("p-0", ""), error])), DRAIN)
    assert first == Retired(("p",))
    (kept,) = rest
    assert isinstance(kept, Kept)
    assert kept.tokens == ("a",)


@pytest.mark.parametrize("ended", [[], [("p-0", "")], [("somebody else", "")]])
def test_a_drain_owes_an_answer_for_each(ended: list[tuple[str, str]]) -> None:
    answered = {
        token
        for fact in facts(performer(scheduler=Scheduler(ended)), DRAIN)
        for token in getattr(fact, "tokens", ())
    }
    assert answered == {"a", "p"}


# -- starts ----------------------------------------------------------------------------


def test_what_is_not_refused_is_accepted() -> None:
    assert facts(performer(gives(None)), START) == [Accepted(("a", "p"))]
    assert facts(performer(gives({})), START) == [Accepted(("a", "p"))]


def test_an_instance_is_refused_as_soon_as_one_of_its_workers_is() -> None:
    assert facts(performer(gives({"p-1": "no memory"})), START) == [
        Accepted(("a",)),
        Refused(("p",), rejected("no memory")),
    ]


def test_a_refusal_may_say_of_which_class_it_is() -> None:
    quota = Ending(EndingKind.QUOTA, "10 of 10")
    assert facts(performer(gives({"a": quota, "p-0": quota})), START) == [
        Refused(("a",), quota),
        Refused(("p",), quota),
    ]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (["a"], "got ['a']"),
        ("a", "got 'a'"),
        (3, "got 3"),
        ({"c": "unknown"}, "{'c'} were not asked for"),
    ],
)
def test_nonsense_from_scale_up_refuses_all(returned: object, words: str) -> None:
    (fact,) = facts(performer(gives(returned)), START)
    assert isinstance(fact, Refused)
    assert fact.tokens == ("a", "p")
    assert words in fact.ending.detail


def test_the_hook_gets_a_list_of_its_own() -> None:
    async def eats(workers: list[str]) -> None:
        assert isinstance(workers, list)
        workers.clear()

    assert facts(performer(eats), START) == [Accepted(("a", "p"))]


# -- ends ------------------------------------------------------------------------------


def test_released() -> None:
    given: list[str] = []

    async def takes(workers: list[str]) -> None:
        given.extend(workers)

    assert facts(performer(takes), RELEASE) == [Released(("a", "b"))]
    assert given == ["a", "b"]


def test_who_has_come_after_all_is_retired_before_it_is_released() -> None:
    side = Scheduler([("a", "")], seen=["a"])
    assert facts(performer(scheduler=side), RELEASE) == [Released(("a", "b"))]
    assert side.left == [["a"]]


def test_who_has_come_after_all_and_cannot_leave_stays() -> None:
    side = Scheduler([("a", "holds data")], seen=["a"])
    assert facts(performer(scheduler=side), RELEASE) == [
        ReleaseFailed(("a",), "holds data"),
        Released(("b",)),
    ]


def test_who_was_retired_is_looked_at_once_more_before_it_is_released() -> None:
    side = Scheduler([("a", ""), ("p-0", "")], seen=["a"])
    made = performer(scheduler=side)
    facts(made, DRAIN, Release(("a",), ("a",)))
    assert side.left == [["a"], ["p-0", "p-1"], ["a"]]


def test_when_everything_is_closed_nobody_is_retired() -> None:
    side = Scheduler([("a", "holds data")], seen=["a"])
    made = performer(scheduler=side, closing=True)
    assert facts(made, RELEASE) == [Released(("a", "b"))]
    assert side.left == []


def test_each_drain_is_told_of_when_it_has_ended() -> None:
    side = Scheduler([("p-0", ""), ("a", "holds data")])
    assert facts(performer(scheduler=side), DRAIN) == [
        Retired(("p",)),
        Kept(("a",), "holds data"),
    ]


def test_who_has_ended_meanwhile_is_owed_no_answer() -> None:
    side = Scheduler([("a", "")], gives({"a"}))
    made = performer(scheduler=side)
    assert facts(made, Drain(("a", "gone"), ("a", "gone"))) == [Retired(("a",))]
    assert facts(made, Recall(("a", "gone"), ("a", "gone"))) == [Recalled(("a",))]


# -- the rest --------------------------------------------------------------------------


def test_recalled_are_those_that_the_scheduler_names() -> None:
    side = Scheduler(hook=gives({"p-0"}))
    assert facts(performer(scheduler=side), RECALL) == [
        Recalled(("p",)),
        RecallRefused(("a",)),
    ]


def test_a_ranking_has_names_as_text_and_why_not_more() -> None:
    assert facts(performer(gives(["b", 3])), RANK) == [Ranked(1, ("b", "3"), "no room")]


@pytest.mark.parametrize("returned", [None, 3])
def test_a_ranking_that_is_none_has_failed(returned: object) -> None:
    (fact,) = facts(performer(gives(returned)), RANK)
    assert isinstance(fact, RankFailed)
    assert "TypeError" in fact.detail


def test_turned_away() -> None:
    assert facts(performer(), TURN_AWAY) == [TurnedAway(("x",))]
