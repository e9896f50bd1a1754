"""How worker processes are to be started here."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Mapping
from typing import Any, Literal, cast

import dask.config
from distributed.config import defaults

Method = Literal["warm", "spawn", "forkserver", "fork"]

_KEY = "distributed.worker.multiprocessing-method"


def start_method() -> Method:
    """Return how worker processes are to be started.

    Returns
    -------
    ``"warm"``, from our own fork server, unless

    - the user has set ``distributed.worker.multiprocessing-method``, to whatever
      value, in a file, an environment variable or by ``dask.config.set``: then that;
    - there is no fork server on this platform, or the interpreter is frozen into an
      executable: then distributed's default.

    Examples
    --------
    >>> with dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}):
    ...     start_method()
    'spawn'
    """
    value = dask.config.get(_KEY)
    # "spawn" is the default and may also be what the user wants. The default is one
    # string object, made when distributed's own file of defaults was read; a value
    # from anywhere else is another object, although it may be equal. Where
    # configuration was copied through a pickle, the objects differ and the safe
    # answer comes out: do as the configuration says.
    is_default = value is _lookup(defaults)
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    frozen = getattr(sys, "frozen", False)
    if is_default and can_fork and not frozen:
        return "warm"
    return cast("Method", value)


def _lookup(config: Mapping[str, Any]) -> Any:
    for part in _KEY.split("."):
        config = config[part]
    return config
