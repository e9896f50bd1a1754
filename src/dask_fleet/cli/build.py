"""The one place that makes a cluster from options.

The rest of this folder knows only ``Cluster``, so that another kind of cluster needs
a branch in ``build`` and nothing else.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

from dask_fleet.cli.options import FleetOptions

if TYPE_CHECKING:
    from dask_fleet.cluster import Cluster


def build(options: FleetOptions) -> Cluster:
    """Make the cluster that the options describe; ``await`` starts it.

    It is asynchronous and does not wait for its workers: a command that is started
    meanwhile has enough to do before it needs them.
    """
    # Late, because dask loads every command group for each of its commands.
    from dask_fleet.backends.local import LocalCluster

    _judge_taken_port(options)
    return LocalCluster(asynchronous=True, wait=False, **keywords(options))


def keywords(options: FleetOptions) -> dict[str, Any]:
    """Translate the options to ``LocalCluster``'s keywords, without those not given.

    Examples
    --------
    >>> from dask_fleet.cli.options import FleetOptions
    >>> keywords(FleetOptions(workers=2, memory=2**30))
    {'n_workers': 2, 'memory_limit': 1073741824}
    """
    given: dict[str, Any] = {
        "name": options.name,
        "n_workers": options.workers,
        "threads_per_worker": options.threads,
        "memory_limit": options.memory,
        "dashboard_address": options.dashboard_address,
        "scheduler_port": options.port or None,
    }
    if options.adapt is not None:
        given["n_workers"] = options.adapt.minimum
        given["threads_per_worker"] = options.threads or _threads(options.adapt.maximum)
    return {name: value for name, value in given.items() if value is not None}


def _judge_taken_port(options: FleetOptions) -> None:
    """Say what it means that the dashboard's port is taken, for this whole process.

    The engine takes another port and warns in four lines. If the port was not asked
    for, the link that is shown says all there is to say; if it was, this is an error.
    """
    action: Literal["ignore", "error"]
    action = "ignore" if options.dashboard_address is None else "error"
    warnings.filterwarnings(action, r"\s*Port \d+ is already in use", UserWarning)


def _threads(maximum: int | None) -> int:
    """Share this machine's cores among as many workers as there may be at most."""
    from dask.system import CPU_COUNT

    return 1 if maximum is None else max(1, math.ceil(CPU_COUNT / maximum))
