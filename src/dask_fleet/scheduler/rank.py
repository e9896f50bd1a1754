"""Who leaves: the choice itself, pure.

Candidates are whole instances. They go class by class: idle ones, then those that run
something, and last those with an actor or a task that has left its thread pool (a
driver, typically). Within a class as many workers go as the surplus has room for, and
of all such choices the one that leaves the fewest bytes to move: those of results that
nobody else would hold any more. Of equal ones, the one with the fewest tasks to wait
for.

A result held by several candidates has to be moved only if all of them leave, so the
bytes of a choice are not the sum of the bytes of its members. Small classes are
searched through completely; in large ones, the candidate that adds least goes first,
again and again, which is exact wherever results have one holder and candidates the
same size. The number of workers is the highest possible in any case.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

#: Up to so many candidates of a class, every choice is looked at.
EXHAUSTIVE = 12


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
    tasks
        Tasks that it was given.
    """

    workers: tuple[str, ...]
    busyness: Busyness
    own_bytes: int
    tasks: int = 0

    @property
    def size(self) -> int:
        """How many workers it has."""
        return len(self.workers)


#: Positions of the candidates that hold the same results, lowest first.
Holders = tuple[int, ...]

#: Bytes of results that several candidates hold, and nobody who stays for sure. Of
#: plain tuples and numbers: the garbage collector would walk through any objects again
#: and again, and in a large scheduler each of its walks takes seconds.
Shared = Mapping[Holders, int]


@dataclass(slots=True)
class Choice:
    """Who leaves.

    Parameters
    ----------
    leavers
        Positions of candidates, in the order in which they go.
    costs
        For each of them the bytes that it adds to what has to be moved.
    """

    leavers: list[int] = field(default_factory=list)
    costs: list[int] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes that have to be moved."""
        return sum(self.costs)


def choose(candidates: Sequence[Candidate], shared: Shared, surplus: int) -> Choice:
    """Choose who leaves.

    Parameters
    ----------
    candidates
        Instances that may leave.
    shared
        Bytes of results that only candidates hold, but several of them, by who.
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
    >>> choose(three, {}, 1).leavers
    [2]
    >>> choose(three, {}, 3).leavers
    [2, 1, 0]
    """
    board = Board(candidates, shared)
    choice = Choice()
    for busyness in Busyness:
        members = [
            index for index, one in enumerate(candidates) if one.busyness is busyness
        ]
        if surplus <= 0 or not members:
            continue
        if len(members) <= EXHAUSTIVE and board.is_uneven(members):
            taken = [(i, board.take(i)) for i in board.search(members, surplus)]
        else:
            taken = board.take_cheapest(members, surplus)
        for index, cost in taken:
            choice.leavers.append(index)
            choice.costs.append(cost)
            surplus -= candidates[index].size
    return choice


class Board:
    """Keeps, while candidates are taken, what each of the others would add.

    Parameters
    ----------
    candidates, shared
        As for :func:`choose`.
    """

    def __init__(self, candidates: Sequence[Candidate], shared: Shared) -> None:
        self._candidates = candidates
        #: Bytes that a candidate adds, given those already taken.
        self._cost = [one.own_bytes for one in candidates]
        self._holders = list(shared)
        self._bytes = list(shared.values())
        #: Of each of these, how many holders are not taken yet.
        self._open = list(map(len, self._holders))
        #: Of each candidate, the numbers of those that it is a holder of.
        self._held: list[list[int]] = [[] for _ in candidates]
        for number, holders in enumerate(self._holders):
            for holder in holders:
                self._held[holder].append(number)
        self._taken: set[int] = set()

    def _charge_last(self, number: int) -> None:
        """Charge what is shared to its last holder that is not taken."""
        if self._open[number] == 1:
            last = next(h for h in self._holders[number] if h not in self._taken)
            self._cost[last] += self._bytes[number]

    def cost(self, index: int) -> int:
        """Return the bytes that a candidate would add now."""
        return self._cost[index]

    def take(self, index: int) -> int:
        """Take a candidate; return the bytes that it adds."""
        self._taken.add(index)
        for number in self._held[index]:
            self._open[number] -= 1
            self._charge_last(number)
        return self._cost[index]

    def is_uneven(self, members: Sequence[int]) -> bool:
        """Whether taking the cheapest first might not be the best."""
        sizes = {self._candidates[index].size for index in members}
        return len(sizes) > 1 or any(self._held[index] for index in members)

    def search(self, members: Sequence[int], surplus: int) -> list[int]:
        """Look at every choice: most workers, fewest bytes, tasks and leavers.

        A choice is a number whose bits are its members.
        """
        count = len(members)
        nbytes = self._bytes_of_all_choices(members)
        workers, tasks = [0] * (1 << count), [0] * (1 << count)
        best = (0, 0, 0, 0, 0)
        for choice in range(1, 1 << count):
            lowest = (choice & -choice).bit_length() - 1
            one, rest = self._candidates[members[lowest]], choice & (choice - 1)
            workers[choice] = workers[rest] + one.size
            tasks[choice] = tasks[rest] + one.tasks
            if workers[choice] <= surplus:
                best = min(
                    best,
                    (
                        -workers[choice],
                        nbytes[choice],
                        tasks[choice],
                        choice.bit_count(),
                        choice,
                    ),
                )
        picked = [index for bit, index in enumerate(members) if best[-1] >> bit & 1]
        return sorted(picked, key=lambda index: (self._cost[index], index))

    def _bytes_of_all_choices(self, members: Sequence[int]) -> list[int]:
        """Sum up the bytes of each choice: those of all choices within it."""
        bit_of = {index: 1 << bit for bit, index in enumerate(members)}
        table = [0] * (1 << len(members))
        for index, bit in bit_of.items():
            table[bit] += self._candidates[index].own_bytes
        for number in {number for index in members for number in self._held[index]}:
            left = set(self._holders[number]) - self._taken
            if left <= bit_of.keys():
                choice = sum(bit_of[index] for index in left)
                table[choice] += self._bytes[number]
        for bit in bit_of.values():
            for choice in range(len(table)):
                if choice & bit:
                    table[choice] += table[choice ^ bit]
        return table

    def take_cheapest(
        self, members: Sequence[int], surplus: int
    ) -> list[tuple[int, int]]:
        """Take who adds least per worker, again and again; return who, and the bytes.

        Those that are too large are passed over. Costs only grow while others are
        taken, so an entry of the heap whose cost is out of date is put back with the
        new one. Nobody is taken that would leave a gap which the others cannot fill.
        """
        sizes = Counter(self._candidates[index].size for index in members)
        left = _largest_sum(sizes, surplus)
        heap = [self._entry(index) for index in members]
        heapq.heapify(heap)
        taken = []
        while left:
            entry = heapq.heappop(heap)
            index = entry[-1]
            if entry != (fresh := self._entry(index)):
                heapq.heappush(heap, fresh)
                continue
            size = self._candidates[index].size
            sizes[size] -= 1
            if size > left or _largest_sum(sizes, left - size) < left - size:
                continue
            taken.append((index, self.take(index)))
            left -= size
        return taken

    def _entry(self, index: int) -> tuple[float, int, int]:
        one = self._candidates[index]
        return (self._cost[index] / one.size, one.tasks, index)


def _largest_sum(sizes: Counter[int], limit: int) -> int:
    """Return the largest sum of some of these sizes that is not above a limit.

    Examples
    --------
    >>> _largest_sum(Counter([4, 4, 3]), 6), _largest_sum(Counter([4, 4, 3]), 7)
    (4, 7)
    """
    kinds = [size for size, count in sizes.items() if count]
    if not kinds:
        return 0
    if len(kinds) == 1:
        return min(sizes[kinds[0]], limit // kinds[0]) * kinds[0]
    # Bit n of `sums` says that n is such a sum. A count is made of powers of two.
    sums, mask = 1, (1 << (limit + 1)) - 1
    for size in kinds:
        count, step = sizes[size], 1
        while count:
            step = min(step, count)
            sums |= (sums << (size * step)) & mask
            count -= step
            step *= 2
    return sums.bit_length() - 1
