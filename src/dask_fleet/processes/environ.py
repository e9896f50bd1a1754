"""Environment variables that must stand before an interpreter starts."""

from __future__ import annotations

import os

import dask.config
import distributed.config  # noqa: F401  -- brings the defaults of the key below

_KEY = "distributed.nanny.pre-spawn-environ"

#: The seed of `hash` that distributed gives its workers: they must agree on the
#: hashes of strings. It refuses "0", which stands for no randomness, as we do.
_HASH_SEED = "6640"


def pre_spawn_environ() -> dict[str, str]:
    """Return what `distributed.Nanny` puts into the environment of a new worker.

    These are the variables of ``distributed.nanny.pre-spawn-environ``, which the C
    library and numerical libraries read only once. What is set in this process's own
    environment takes precedence; None in the configuration unsets.

    Examples
    --------
    >>> pre_spawn_environ()["PYTHONHASHSEED"] != "0"
    True
    """
    configured = dask.config.get(_KEY)
    environ = {
        name: os.environ.get(name, str(value))
        for name, value in configured.items()
        if value is not None
    }
    if environ.get("PYTHONHASHSEED", "0") == "0":
        environ["PYTHONHASHSEED"] = _HASH_SEED
    return environ
