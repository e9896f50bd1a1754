"""``scale_up`` and ``scale_down`` called by hand, as distributed's clusters allow.

There, ``scale_up(5)`` is another word for ``scale(5)``, and ``scale_down(names)`` lets
certain workers go. Here both names are hooks, called with names. A call by hand is
known by what it gives: a number, or names of workers that nobody asked to leave.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_fleet.cluster.cluster import Cluster


def allow_calls(cluster: Cluster) -> None:
    """Let a cluster's hooks be called by hand.

    Parameters
    ----------
    cluster
        Its hooks are looked up in its class at each call.
    """
    kind = type(cluster)

    @functools.wraps(kind.scale_up)
    def scale_up(workers: Any, *args: Any, **options: Any) -> Any:
        if isinstance(workers, Iterable):
            return type(cluster).scale_up(cluster, workers)  # type: ignore[arg-type]
        return cluster.scale(workers, *args, **options)

    @functools.wraps(kind.scale_down)
    def scale_down(workers: Iterable[Any]) -> Any:
        names = names_of(cluster, workers)
        chosen = [name for name in names if name in cluster.plan]
        if not chosen:
            return type(cluster).scale_down(cluster, names)
        return cluster.sync(let_go, cluster, chosen)  # type: ignore[no-untyped-call]

    cluster.scale_up = scale_up  # type: ignore[method-assign]
    cluster.scale_down = scale_down  # type: ignore[method-assign]


async def let_go(cluster: Cluster, workers: Iterable[str]) -> None:
    """Let certain workers go; only in the cluster's event loop.

    Parameters
    ----------
    cluster
        The cluster.
    workers
        Names.
    """
    cluster._control.must_be_open()
    cluster._control.dismiss(workers)


def names_of(cluster: Cluster, workers: Iterable[Any]) -> list[str]:
    """Turn names of whatever type, and addresses, into names.

    Parameters
    ----------
    cluster
        The cluster.
    workers
        Names or addresses.
    """
    known = cluster.scheduler_info["workers"]
    return [str(known[one]["name"] if one in known else one) for one in workers]
