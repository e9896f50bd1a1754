"""Names of clusters: no two live ones of one process share a name."""

from __future__ import annotations

import warnings
from weakref import WeakValueDictionary

#: The live clusters of this process that were given a name, by name.
_LIVE: WeakValueDictionary[str, object] = WeakValueDictionary()


def claim(name: str | None, owner: object) -> str | None:
    """Claim a name for a cluster.

    Parameters
    ----------
    name
        As given by the user; ``None`` for a random one, which needs no claim.
    owner
        The cluster.

    Returns
    -------
    str or None
        The name; with a number behind it, and a warning, if another live cluster of
        this process has it already.
    """
    if name is None:
        return None
    free = name
    number = 2
    while free in _LIVE:
        free = f"{name}-{number}"
        number += 1
    if free != name:
        warnings.warn(
            f"a live cluster is already called {name!r}; this one is called {free!r}",
            UserWarning,
            stacklevel=4,
        )
    _LIVE[free] = owner
    return free


def release(name: str, owner: object) -> None:
    """Give a name back when its cluster is closed."""
    if _LIVE.get(name) is owner:
        del _LIVE[name]
