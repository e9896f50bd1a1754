"""An event loop whose time passes only while everybody sleeps."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest.mock import patch

T = TypeVar("T")

#: Modules of ours that read the clock.
CLOCKS = (
    "dask_fleet.cluster.polling.monotonic",
    "dask_fleet.cluster.reconciler.monotonic",
)


class Stuck(AssertionError):
    """Everybody waits for something that will never happen."""


class _Selector(selectors.DefaultSelector):
    """Instead of sleeping, puts the clock forward."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise Stuck
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds of sleep cost nothing; whoever computes does so in no time."""

    def __init__(self) -> None:
        self.clock = _Selector()
        super().__init__(self.clock)

    def time(self) -> float:
        return float(self.clock.now)


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine under virtual time, our own modules included."""
    loop = VirtualLoop()
    patches = [patch(name, loop.time) for name in CLOCKS]
    try:
        for one in patches:
            one.start()
        return loop.run_until_complete(main)
    finally:
        for one in patches:
            one.stop()
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()
