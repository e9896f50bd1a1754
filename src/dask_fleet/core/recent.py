"""What is remembered of the target, of earlier ones, and of the last starts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dask_fleet.core.causes import Cause
from dask_fleet.core.commands import Command, Start
from dask_fleet.core.settings import Growth
from dask_fleet.core.snapshot import Started, Wanted


@dataclass(slots=True)
class Target:
    """The number of workers that should exist, and who said so."""

    workers: int = 0
    by: Cause = Cause.SCALED


class Targets:
    """Earlier targets, as far as a calm window needs them.

    Examples
    --------
    >>> targets = Targets()
    >>> for until, workers in [(1.0, 5), (2.0, 8), (3.0, 2)]:
    ...     targets.note(Wanted(until, workers), calm=10.0)
    >>> [one.workers for one in targets]  # what came before the 8 does not matter
    [8, 2]
    """

    def __init__(self) -> None:
        #: Strictly falling, oldest first: a later target that was not lower makes an
        #: earlier one irrelevant, for the highest of the window is what counts.
        self._wanted: deque[Wanted] = deque()

    def __iter__(self) -> Iterator[Wanted]:
        return iter(self._wanted)

    def clear(self) -> None:
        """Forget all of them."""
        self._wanted.clear()

    def note(self, one: Wanted, calm: float) -> None:
        """Remember a target that was in force until now; ``calm`` is in seconds."""
        wanted = self._wanted
        while wanted and wanted[-1].workers <= one.workers:
            wanted.pop()
        while wanted and wanted[0].until + calm < one.until:
            wanted.popleft()
        if calm:
            wanted.append(one)


class Starts:
    """How many workers were asked for and when, as far as a growth rate needs it."""

    def __init__(self) -> None:
        self._started: deque[Started] = deque()

    def __iter__(self) -> Iterator[Started]:
        return iter(self._started)

    def note(self, commands: Iterable[Command], now: float, rate: Growth) -> None:
        """Count the starts among some commands."""
        started = self._started
        while started and now >= started[0].at + rate.period:
            started.popleft()
        for command in commands:
            if isinstance(command, Start):
                started.append(Started(now, len(command.workers)))
