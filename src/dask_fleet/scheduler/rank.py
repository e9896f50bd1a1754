"""Who leaves: the choice itself, pure.

Candidates are whole instances. They go class by class: idle ones, then those that run
something, and last those with an actor or a task that has left its thread pool (a
driver, typically). Within a class as many workers go as the surplus has room for, and
of all such choices the one that leaves the fewest bytes to move: those of results that
nobody else would hold any more.

A result held by several candidates has to be moved only if all of them leave, so the
bytes of a choice are not the sum of the bytes of its members. Small classes are
searched through completely; in large ones, the candidate that adds least goes first,
again and again, which is exact wherever results have one holder.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import combinations

#: Up to so many candidates of a class, every choice is looked at.
EXHAUSTIVE = 10


class Busyness(IntEnum):
    """The classes in which candidates leave."""

    IDLE = 0
    BUSY = 1
    #: Holds an actor or runs a task that has left its thread pool.
    PINNED = 2


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that might leave.

    Parameters
    ----------
    workers
        Names of its workers.
    busyness
        Its class.
    own_bytes
        Bytes of results that only it holds, those already leaving aside.
    """

    workers: tuple[str, ...]
    busyness: Busyness
    own_bytes: int

    @property
    def size(self) -> int:
        """How many workers it has."""
        return len(self.workers)


@dataclass(frozen=True, slots=True)
class Shared:
    """A result that several candidates hold, and nobody who stays for sure.

    Parameters
    ----------
    nbytes
        Its size.
    holders
        Positions of the candidates.
    """

    nbytes: int
    holders: frozenset[int]


@dataclass(slots=True)
class Choice:
    """Who leaves.

    Parameters
    ----------
    leavers
        Positions of candidates, in the order in which they go.
    nbytes
        Bytes that have to be moved.
    """

    leavers: list[int] = field(default_factory=list)
    nbytes: int = 0


def choose(
    candidates: Sequence[Candidate], shared: Iterable[Shared], surplus: int
) -> Choice:
    """Choose who leaves.

    Parameters
    ----------
    candidates
        Instances that may leave.
    shared
        Results that only candidates hold, but several of them.
    surplus
        Workers that should leave at most.

    Returns
    -------
    Choice
        As many workers as the surplus has room for, class by class.

    Examples
    --------
    >>> idle, busy = Busyness.IDLE, Busyness.BUSY
    >>> three = [Candidate(("a",), busy, 0), Candidate(("b",), idle, 50),
    ...          Candidate(("c",), idle, 20)]
    >>> choose(three, [], 1).leavers
    [2]
    >>> choose(three, [], 3).leavers
    [2, 1, 0]
    """
    board = _Board(candidates, shared)
    choice = Choice()
    for busyness in Busyness:
        members = [
            index for index, one in enumerate(candidates) if one.busyness is busyness
        ]
        if surplus <= 0 or not members:
            continue
        if len(members) <= EXHAUSTIVE and board.is_uneven(members):
            picked = board.search(members, surplus)
        else:
            picked = board.greedy(members, surplus)
        for index in picked:
            choice.nbytes += board.take(index)
            choice.leavers.append(index)
            surplus -= candidates[index].size
    return choice


class _Board:
    """Keeps, while candidates are taken, what each of the others would add."""

    def __init__(
        self, candidates: Sequence[Candidate], shared: Iterable[Shared]
    ) -> None:
        self._candidates = candidates
        self._shared = list(shared)
        #: Bytes that a candidate adds, given those already taken.
        self._cost = [one.own_bytes for one in candidates]
        #: Of each shared result, how many holders are not taken yet.
        self._open = [len(one.holders) for one in self._shared]
        self._held: defaultdict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(self._shared):
            for holder in one.holders:
                self._held[holder].append(number)
        self._taken: set[int] = set()
        for number, one in enumerate(self._shared):
            self._charge_last(number, one)

    def _charge_last(self, number: int, one: Shared) -> int | None:
        """Charge a result to its last holder that is not taken; return that holder."""
        if self._open[number] != 1:
            return None
        last = next(h for h in one.holders if h not in self._taken)
        self._cost[last] += one.nbytes
        return last

    def take(self, index: int) -> int:
        """Take a candidate; return the bytes that it adds."""
        cost = self._cost[index]
        self._touch(index)
        return cost

    def _touch(self, index: int) -> list[int]:
        """Take a candidate; return those whose cost has changed."""
        self._taken.add(index)
        changed = []
        for number in self._held[index]:
            self._open[number] -= 1
            last = self._charge_last(number, self._shared[number])
            if last is not None:
                changed.append(last)
        return changed

    def is_uneven(self, members: list[int]) -> bool:
        """Whether taking the cheapest first might not be the best."""
        sizes = {self._candidates[index].size for index in members}
        return len(sizes) > 1 or any(self._held[index] for index in members)

    def search(self, members: list[int], surplus: int) -> list[int]:
        """Look at every choice: most workers, fewest bytes, fewest leavers."""
        best: tuple[tuple[int, int, int], tuple[int, ...]] | None = None
        for count in range(len(members) + 1):
            for picked in combinations(members, count):
                workers = sum(self._candidates[index].size for index in picked)
                if workers > surplus:
                    continue
                score = (-workers, self._bytes_of(picked), count)
                if best is None or score < best[0]:
                    best = (score, picked)
        assert best is not None
        return sorted(best[1], key=lambda index: (self._cost[index], index))

    def _bytes_of(self, picked: tuple[int, ...]) -> int:
        chosen = set(picked)
        gone = chosen | self._taken
        total = sum(self._candidates[index].own_bytes for index in picked)
        touched = {number for index in picked for number in self._held[index]}
        return total + sum(
            self._shared[number].nbytes
            for number in touched
            if self._shared[number].holders <= gone
        )

    def greedy(self, members: list[int], surplus: int) -> list[int]:
        """Take who adds least, again and again; pass over who is too large.

        Costs only grow while others are taken, so an entry of the heap whose cost is
        out of date is put back with the new one.
        """
        trial = _Board(self._candidates, self._shared)
        for index in self._taken:
            trial._touch(index)
        heap = [(trial._cost[index], index) for index in members]
        heapq.heapify(heap)
        picked = []
        while heap and surplus > 0:
            cost, index = heapq.heappop(heap)
            if cost != trial._cost[index]:
                heapq.heappush(heap, (trial._cost[index], index))
                continue
            if self._candidates[index].size > surplus:
                continue
            trial._touch(index)
            picked.append(index)
            surplus -= self._candidates[index].size
        return picked
