"""The choice itself, against all choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from dask_fleet.scheduler.rank import Busyness, Candidate, Choice, Shared, choose


def bytes_of(
    candidates: Sequence[Candidate], shared: Shared, gone: Iterable[int]
) -> int:
    """What has to be moved if these leave."""
    leavers = set(gone)
    own = sum(candidates[index].own_bytes for index in leavers)
    return own + sum(n for who, n in shared.items() if leavers.issuperset(who))


def workers_of(candidates: Sequence[Candidate], indices: Iterable[int]) -> int:
    return sum(candidates[index].size for index in indices)


def subsets(members: Sequence[int]) -> Iterable[tuple[int, ...]]:
    for count in range(len(members) + 1):
        yield from combinations(members, count)


@st.composite
def states(
    draw: st.DrawFn, most: int = 10, even: bool = False, sharing: bool = True
) -> tuple[list[Candidate], Shared, int]:
    count = draw(st.integers(0, most))
    nbytes = st.one_of(st.integers(0, 5), st.integers(0, 10**9))
    size = draw(st.integers(1, 4))
    candidates = []
    for index in range(count):
        own_size = size if even else draw(st.integers(1, 4))
        candidates.append(
            Candidate(
                tuple(f"{index}-{one}" for one in range(own_size)),
                draw(st.sampled_from(Busyness)),
                draw(nbytes),
                draw(st.integers(0, 3)),
            )
        )
    shared: Shared = {}
    if sharing and count > 1:
        some = st.frozensets(st.integers(0, count - 1), min_size=2)
        holders = some.map(lambda who: tuple(sorted(who)))
        shared = draw(st.dictionaries(holders, nbytes, max_size=12))
    surplus = draw(st.integers(0, sum(one.size for one in candidates) + 2))
    return candidates, shared, surplus


def by_class(
    candidates: Sequence[Candidate], choice: Choice
) -> Iterable[tuple[list[int], list[int], list[int]]]:
    """Of each class: who went before, its members, and who of them was chosen."""
    before: list[int] = []
    for busyness in Busyness:
        members = [i for i, one in enumerate(candidates) if one.busyness is busyness]
        chosen = [i for i in choice.leavers if i in members]
        yield list(before), members, chosen
        before += chosen


@given(states())
def test_no_choice_moves_fewer_bytes_within_a_class(
    state: tuple[list[Candidate], Shared, int],
) -> None:
    candidates, shared, surplus = state
    choice = choose(candidates, shared, surplus)
    left = surplus
    for before, members, chosen in by_class(candidates, choice):
        fitting = [
            one for one in subsets(members) if workers_of(candidates, one) <= left
        ]
        most = max(workers_of(candidates, one) for one in fitting)
        least = min(
            bytes_of(candidates, shared, (*before, *one))
            for one in fitting
            if workers_of(candidates, one) == most
        )
        assert workers_of(candidates, chosen) == most
        assert bytes_of(candidates, shared, (*before, *chosen)) == least
        left -= most


@given(states(most=40, even=True, sharing=False))
def test_the_cheapest_go_however_many_there_are(
    state: tuple[list[Candidate], Shared, int],
) -> None:
    candidates, _, surplus = state
    choice = choose(candidates, {}, surplus)
    left = surplus
    for _, members, chosen in by_class(candidates, choice):
        each = candidates[members[0]].size if members else 1
        costs = sorted(candidates[index].own_bytes for index in members)
        room = min(left // each, len(members))
        assert sum(candidates[index].own_bytes for index in chosen) == sum(costs[:room])
        left -= room * each


@given(states(most=40))
@settings(max_examples=200)
def test_as_many_leave_as_there_is_room_for_and_never_more(
    state: tuple[list[Candidate], Shared, int],
) -> None:
    candidates, shared, surplus = state
    choice = choose(candidates, shared, surplus)
    assert len(set(choice.leavers)) == len(choice.leavers)
    assert workers_of(candidates, choice.leavers) <= surplus
    assert choice.nbytes == bytes_of(candidates, shared, choice.leavers)
    left = surplus
    for _, members, chosen in by_class(candidates, choice):
        sums = {0}
        for index in members:
            sums |= {one + candidates[index].size for one in sums}
        most = max(one for one in sums if one <= left)
        assert workers_of(candidates, chosen) == most
        left -= most


@given(states())
def test_the_same_state_gives_the_same_choice(
    state: tuple[list[Candidate], Shared, int],
) -> None:
    assert choose(*state) == choose(*state)


def named(
    busyness: Busyness, nbytes: int, workers: int = 1, tasks: int = 0
) -> Candidate:
    return Candidate(tuple(map(str, range(workers))), busyness, nbytes, tasks)


IDLE, BUSY, PINNED = Busyness


def test_idle_before_busy_before_pinned_whatever_they_hold() -> None:
    candidates = [named(PINNED, 0), named(BUSY, 5), named(IDLE, 10**9)]
    assert [choose(candidates, {}, n).leavers for n in range(4)] == [
        [],
        [2],
        [2, 1],
        [2, 1, 0],
    ]


def test_a_smaller_one_goes_if_the_cheapest_is_too_large() -> None:
    candidates = [named(IDLE, 0, workers=4), named(IDLE, 50), named(IDLE, 10)]
    assert choose(candidates, {}, 1).leavers == [2]
    assert choose(candidates, {}, 3).leavers == [2, 1]
    assert choose(candidates, {}, 4).leavers == [0]


def test_a_class_that_does_not_fit_leaves_room_for_the_next() -> None:
    candidates = [named(IDLE, 0, workers=4), named(BUSY, 50)]
    assert choose(candidates, {}, 3).leavers == [1]


def test_copies_of_each_other_do_not_both_go() -> None:
    """Each alone costs nothing, both together cost what they share."""
    candidates = [named(IDLE, 0), named(IDLE, 0), named(IDLE, 30)]
    shared: Shared = {(0, 1): 100}
    choice = choose(candidates, shared, 2)
    assert (choice.leavers, choice.nbytes) == ([0, 2], 30)


def test_of_equal_ones_the_one_with_fewest_tasks_goes() -> None:
    candidates = [named(BUSY, 5, tasks=3), named(BUSY, 5, tasks=1)]
    assert choose(candidates, {}, 1).leavers == [1]
    many = [*candidates, *(named(BUSY, 6) for _ in range(20))]
    assert choose(many, {}, 2).leavers == [1, 0]
