"""Pickling for another process of the same installation."""

from __future__ import annotations

import io
import pickle
from multiprocessing import reduction
from typing import Any, cast

import cloudpickle  # type: ignore[import-untyped]


def dumps(thing: Any) -> bytes:
    """Pickle anything, by value where there is no name to find it by.

    Examples
    --------
    >>> pickle.loads(dumps(lambda: 42))()
    42
    """
    return cast("bytes", cloudpickle.dumps(thing))


def dumps_for_child(thing: Any, *, main_is_importable: bool) -> bytes:
    """Pickle by reference where the child can import, else by value.

    By reference is what spawn does, and what keeps a class of the main script one
    and the same class in the child. By value is needed for what has no name there:
    lambdas, and whatever was defined in a notebook or at a prompt.

    Parameters
    ----------
    thing
        What to pickle.
    main_is_importable
        Whether the child finds in ``__main__`` what this process has there.
    """
    if main_is_importable:
        buffer = io.BytesIO()
        try:
            reduction.ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(thing)
        except (pickle.PicklingError, AttributeError, TypeError):
            pass  # cloudpickle raises an error of its own if it cannot either
        else:
            return buffer.getvalue()
    return dumps(thing)
