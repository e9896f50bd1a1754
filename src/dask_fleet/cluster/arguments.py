"""Checks of what users pass in: a clear error before anything is changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from numbers import Integral, Real

from dask.utils import parse_bytes, parse_timedelta


def worker_count(name: str, value: object, *, lowest: int = 0) -> int:
    """Check a number of workers.

    Parameters
    ----------
    name
        The argument's name, for the message.
    value
        What was passed.
    lowest
        The lowest number that makes sense.

    Raises
    ------
    TypeError
        If it is no whole number; ``True`` is none.
    ValueError
        If it is below ``lowest``.

    Examples
    --------
    >>> worker_count("n", 3)
    3
    >>> worker_count("n", 2.5)
    Traceback (most recent call last):
    ...
    TypeError: n must be a whole number of workers, at least 0; got 2.5
    """
    problem = f"{name} must be a whole number of workers, at least {lowest}"
    whole = isinstance(value, float) and value.is_integer()
    if isinstance(value, bool) or not (whole or isinstance(value, Integral)):
        raise TypeError(f"{problem}; got {value!r}")
    number = int(value)  # type: ignore[call-overload]
    if number < lowest:
        raise ValueError(f"{problem}; got {value!r}")
    return int(number)


def worker_bound(name: str, value: object) -> float:
    """Check an upper bound of workers: a whole number or infinity.

    Examples
    --------
    >>> worker_bound("maximum", float("inf"))
    inf
    """
    if isinstance(value, float) and value == math.inf:
        return value
    return worker_count(name, value)


def amount(name: str, value: object) -> float:
    """Check a number of cores: finite and not negative.

    Raises
    ------
    TypeError
        If it is no number.
    ValueError
        If it is negative or not finite.
    """
    problem = f"{name} must be a number, finite and at least 0"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{problem}; got {value!r}")
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{problem}; got {value!r}")
    return number


def byte_count(name: str, value: object) -> int:
    """Check an amount of memory, like ``"16 GiB"`` or a number of bytes.

    Examples
    --------
    >>> byte_count("memory", "1 kiB")
    1024
    >>> byte_count("memory", "5 parsecs")
    Traceback (most recent call last):
    ...
    ValueError: memory must be a number of bytes or like '16 GiB'; got '5 parsecs'
    """
    problem = f"{name} must be a number of bytes or like '16 GiB'"
    if isinstance(value, bool) or not isinstance(value, (str, Real)):
        raise TypeError(f"{problem}; got {value!r}")
    if isinstance(value, str) and not value.strip():
        raise ValueError(f"{problem}; got {value!r}")
    try:
        number = parse_bytes(value if isinstance(value, str) else int(float(value)))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{problem}; got {value!r}") from error
    if number < 0:
        raise ValueError(f"{problem}; got {value!r}")
    return int(number)


def seconds(
    name: str, value: object, *, positive: bool = True, unit: str = "seconds"
) -> float:
    """Check a time, like ``"500 ms"``, a number of seconds or a timedelta.

    Parameters
    ----------
    name, value
        The argument.
    positive
        Zero is refused.
    unit
        What a bare number means.

    Examples
    --------
    >>> seconds("interval", "500 ms")
    0.5
    """
    low = "above 0" if positive else "at least 0"
    problem = f"{name} must be a finite time {low}, like '1 s' or a number of {unit}"
    try:
        if isinstance(value, bool):
            raise TypeError(problem)
        if isinstance(value, Real) and unit == "seconds":
            number = float(value)
        elif isinstance(value, (str, Real, timedelta)):
            number = float(parse_timedelta(value, default=unit))  # type: ignore[arg-type]
        else:
            raise TypeError(problem)
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        kind = TypeError if not isinstance(value, str) else ValueError
        raise kind(f"{problem}; got {value!r}") from error
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise ValueError(f"{problem}; got {value!r}")
    return number


def ordered(minimum: float, maximum: float) -> None:
    """Check that bounds are not crossed.

    Raises
    ------
    ValueError
        If the minimum is above the maximum.
    """
    if minimum > maximum:
        raise ValueError(
            f"minimum must not be above maximum; got minimum={minimum!r} and "
            f"maximum={maximum!r} (in workers)"
        )


def flag(name: str, value: object) -> bool:
    """Check that something is ``True`` or ``False``."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return value


def function(name: str, value: object) -> Callable[..., object]:
    """Check that something can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function; got {value!r}")
    return value


def described(error: BaseException) -> str:
    """Return an error in one line, never empty.

    Examples
    --------
    >>> described(ValueError("no such queue"))
    'no such queue'
    >>> described(KeyError())
    'KeyError()'
    """
    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, RuntimeError, OSError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else repr(error)
