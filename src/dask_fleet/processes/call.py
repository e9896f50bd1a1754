"""One function call in a child of its own: the child's side."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dask_fleet.processes.channel import frame
from dask_fleet.processes.failure import Failure
from dask_fleet.processes.pickling import dumps


@dataclass(frozen=True)
class Result:
    """What the function returned."""

    value: Any


def call_and_report(
    channel: socket.socket,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Call a function and send its `Result`, or the `Failure` that it was."""
    try:
        result = dumps(Result(function(*args, **kwargs)))
    except Exception as error:  # noqa: BLE001  -- whatever it raises is for the caller
        result = dumps(Failure.of(error))
    channel.sendall(frame(result))
