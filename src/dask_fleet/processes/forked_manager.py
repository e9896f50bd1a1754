"""A process that the user forks off a manager must not disturb the manager."""

from __future__ import annotations

import os
import sys
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """Something that holds descriptors."""

    def close_inherited(self) -> None:
        """Close this process's copies of the descriptors and nothing else.

        Not to be touched: the event loop, whose selector is shared with the parent.
        """


_open: WeakSet[Inherited] = WeakSet()


def close_in_forks(thing: Inherited) -> None:
    """Close this object's descriptors in every process that is forked from now on.

    A fork server and its children live as long as someone holds the other end of
    their sockets. A copy in a forked process would keep them alive after the manager.
    """
    _open.add(thing)


def _close_all() -> None:
    for thing in tuple(_open):
        thing.close_inherited()
    _open.clear()


if sys.platform != "win32":  # where nothing forks
    os.register_at_fork(after_in_child=_close_all)
