"""The shell: everything about scaling that waits, asks or writes.

``cluster.py`` is what users hold in their hands, ``reconciler.py`` the one task that
brings the world to the target, ``performer.py`` turns each command into one call, and
``scheduler_link.py`` is the only place that speaks with the scheduler. Nothing here
decides; that is the business of :mod:`dask_fleet.core`.
"""

from dask_fleet.cluster.cluster import Cluster
from dask_fleet.cluster.config import load_defaults
from dask_fleet.cluster.errors import ClosedError, FleetError, StartError
from dask_fleet.cluster.hooks import WorkerReport

load_defaults()

__all__ = ["ClosedError", "Cluster", "FleetError", "StartError", "WorkerReport"]
