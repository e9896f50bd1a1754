"""One Cluster class for every place Dask runs, and one scale in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_fleet._version import __version__

if TYPE_CHECKING:
    from dask_fleet.backends.local import LocalCluster
    from dask_fleet.cluster import (
        ClosedError,
        Cluster,
        FleetError,
        StartError,
        WorkerReport,
    )
    from dask_fleet.core import Ending, EndingKind, Recommendation

__all__ = [
    "ClosedError",
    "Cluster",
    "Ending",
    "EndingKind",
    "FleetError",
    "LocalCluster",
    "Recommendation",
    "StartError",
    "WorkerReport",
    "__version__",
]

#: Where each name comes from. They are imported when they are first used, so that the
#: pure core and the fork server can be imported without the rest.
_HOMES = {
    "ClosedError": "dask_fleet.cluster",
    "Cluster": "dask_fleet.cluster",
    "Ending": "dask_fleet.core",
    "EndingKind": "dask_fleet.core",
    "FleetError": "dask_fleet.cluster",
    "LocalCluster": "dask_fleet.backends.local",
    "Recommendation": "dask_fleet.core",
    "StartError": "dask_fleet.cluster",
    "WorkerReport": "dask_fleet.cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
