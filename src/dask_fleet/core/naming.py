"""Who names new instances: usually their serials; sometimes somebody knows better.

A cluster that was made from a list of named workers, or a resource manager whose names
mean something, gives a :class:`Namer`. It is asked before each decision for as many
names as could be needed; what it answers is a fact like any other, so that a decision
stays a function of its snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dask_fleet.core.instance import Instance

#: The token of an instance to come, and the names of its workers. None of them was
#: ever used before.
Named = tuple[str, tuple[str, ...]]


class Namer(Protocol):
    """Gives names to the instances of one fleet."""

    def ahead(self, workers: int) -> tuple[Named, ...]:
        """Name the instances that come next, enough for so many workers.

        What is not used is asked for again.
        """

    def settle(self, planned: int, instances: Mapping[str, Instance]) -> None:
        """Take note of a decision: so many of the names are used; this is the plan."""
