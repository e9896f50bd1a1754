"""From cores and memory to workers."""

from __future__ import annotations

import math

from dask_fleet.cluster.arguments import amount, byte_count, worker_bound, worker_count


def workers_for(
    *,
    n: object,
    cores: object,
    memory: object,
    threads_each: int | None,
    bytes_each: int | None,
) -> int:
    """Say how many workers give what was asked for.

    Parameters
    ----------
    n, cores, memory
        As given to ``scale``; of several, the one that needs most workers counts.
    threads_each, bytes_each
        Of one worker; ``None`` if unknown or without limit.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong, none is given, or the size of a worker is unknown.

    Examples
    --------
    >>> workers_for(n=None, cores=7, memory=None, threads_each=2, bytes_each=None)
    4
    """
    if n is None and cores is None and memory is None:
        raise TypeError(
            "scale needs a number of workers: n=, cores= or memory=; got None for all"
        )
    counts = []
    if n is not None:
        counts.append(worker_count("n", n))
    if cores is not None:
        counts.append(_up(amount("cores", cores), "cores", threads_each))
    if memory is not None:
        counts.append(_up(byte_count("memory", memory), "memory", bytes_each))
    return max(counts)


def lower_bound(
    minimum: object,
    cores: object,
    memory: object,
    threads_each: int | None,
    bytes_each: int | None,
) -> int | None:
    """Say how many workers satisfy all minimums; ``None`` if none was given."""
    bounds = []
    if minimum is not None:
        bounds.append(worker_count("minimum", minimum))
    if cores is not None:
        number = amount("minimum_cores", cores)
        bounds.append(_up(number, "minimum_cores", threads_each))
    if memory is not None:
        number = byte_count("minimum_memory", memory)
        bounds.append(_up(number, "minimum_memory", bytes_each))
    return max(bounds, default=None)


def upper_bound(
    maximum: object,
    cores: object,
    memory: object,
    threads_each: int | None,
    bytes_each: int | None,
) -> float | None:
    """Say how many workers respect all maximums; ``None`` if none was given.

    Raises
    ------
    ValueError
        If a maximum other than zero allows not even one worker.
    """
    bounds: list[float] = []
    if maximum is not None:
        bounds.append(worker_bound("maximum", maximum))
    if cores is not None:
        number = amount("maximum_cores", cores)
        bounds.append(_down(number, "maximum_cores", threads_each))
    if memory is not None:
        number = byte_count("maximum_memory", memory)
        bounds.append(_down(number, "maximum_memory", bytes_each))
    return min(bounds, default=None)


def _each(name: str, each: int | None) -> int:
    if not each:
        raise ValueError(
            f"{name} cannot be used here: the {_what(name)} of one worker is not known "
            "or has no limit; give a number of workers instead"
        )
    return each


def _what(name: str) -> str:
    return "memory" if "memory" in name else "number of threads"


def _up(number: float, name: str, each: int | None) -> int:
    return math.ceil(number / _each(name, each))


def _down(number: float, name: str, each: int | None) -> int:
    size = _each(name, each)
    if 0 < number < size:
        raise ValueError(
            f"{name} must allow at least one worker, which has {size}; got {number:g}"
        )
    return math.floor(number / size)
