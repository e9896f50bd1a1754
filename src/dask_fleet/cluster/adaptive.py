"""Adaptive scaling: one function for the target, in one periodic callback."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Literal

import dask.config
from tornado.ioloop import PeriodicCallback

from dask_fleet.cluster.arguments import (
    described,
    function,
    ordered,
    seconds,
    worker_bound,
    worker_count,
)

#: A function that gives the number of workers that should exist.
TargetFunction = Callable[[], "int | Awaitable[int]"]

#: A target function that does not answer within so many seconds has failed.
TARGET_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class AdaptiveOptions:
    """The checked options of one ``adapt`` call.

    Parameters
    ----------
    minimum, maximum
        Workers.
    interval
        Seconds between two questions for the target.
    wait_count
        The calm window is so many intervals.
    target_duration
        Seconds that a computation should take.
    hurries
        The duration is only the default, and may be cut where starts are cheap.
    target
        Replaces the cluster's own policy.
    worker_key
        Groups workers that must leave together.
    workers_to_close
        Replaces the cluster's own choice of who leaves.
    shortest_calm
        Seconds; the calm window is not shorter. To look more often is no wish for
        less calm: as long as no ``wait_count`` is given, the window that is configured
        stays.
    """

    minimum: int
    maximum: float
    interval: float
    wait_count: int
    target_duration: float
    hurries: bool = False
    target: TargetFunction | None = None
    worker_key: Callable[[Any], Hashable] | None = None
    workers_to_close: Callable[[int], Awaitable[list[str]]] | None = None
    shortest_calm: float = 0.0

    @property
    def calm(self) -> float:
        """The calm window, in seconds."""
        return max(self.interval * self.wait_count, self.shortest_calm)


def checked_options(
    *,
    minimum: float | None,
    maximum: float | None,
    interval: object,
    wait_count: object,
    target_duration: object,
    target: object,
    worker_key: object,
) -> AdaptiveOptions:
    """Fill in what was not given from ``distributed.adaptive.*`` and check all of it.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value and what would be right.
    """

    def given(value: object, key: str) -> object:
        return (
            dask.config.get(f"distributed.adaptive.{key}") if value is None else value
        )

    low = worker_count("minimum", given(minimum, "minimum"))
    high = worker_bound("maximum", given(maximum, "maximum"))
    ordered(low, high)
    usual_calm = 0.0
    if wait_count is None:
        usual_calm = worker_count(
            "distributed.adaptive.wait-count", given(None, "wait-count")
        ) * seconds("distributed.adaptive.interval", given(None, "interval"))
    return AdaptiveOptions(
        shortest_calm=usual_calm,
        minimum=low,
        maximum=high,
        interval=seconds("interval", given(interval, "interval")),
        wait_count=worker_count("wait_count", given(wait_count, "wait-count")),
        target_duration=seconds(
            "target_duration", given(target_duration, "target-duration")
        ),
        hurries=target_duration is None,
        target=None if target is None else function("target", target),  # type: ignore[arg-type]
        worker_key=None if worker_key is None else function("worker_key", worker_key),
    )


def checked_target(value: object) -> int:
    """Check what a target function returned.

    Raises
    ------
    TypeError, ValueError
        If it is no whole number of workers. Infinity means "as many as allowed" and
        is no whole number either; give the maximum instead.
    """
    return worker_count("the target function's result", value)


class AdaptHandle:
    """What ``adapt`` returns: its bounds, its state, and a way to stop it.

    Parameters
    ----------
    options
        The checked options.
    step
        One question for the target, and one scaling to it.
    stopped
        Told when it stops, with the reason.
    changed
        Told when its options were changed.
    """

    def __init__(
        self,
        options: AdaptiveOptions,
        step: Callable[[], Awaitable[None]],
        stopped: Callable[[AdaptHandle, str], None],
        changed: Callable[[AdaptHandle], None] | None = None,
    ) -> None:
        self.options = options
        self._step = step
        self._stopped = stopped
        self._changed = changed
        self._state: Literal["starting", "running", "stopped"] = "starting"
        #: One step at a time: a slow target function makes the next ones wait.
        self._stepping = False
        self.periodic_callback: PeriodicCallback | None = None
        self._first: asyncio.Task[None] | None = None

    @property
    def state(self) -> Literal["starting", "running", "stopped"]:
        """Whether it is at work."""
        return self._state

    def _change(self, **options: Any) -> None:
        self.options = replace(self.options, **options)
        if self._changed is not None:
            self._changed(self)

    @property
    def minimum(self) -> int:
        """Lower bound, in workers. May be set while it is at work."""
        return self.options.minimum

    @minimum.setter
    def minimum(self, value: int) -> None:
        self._change(minimum=worker_count("minimum", value))

    @property
    def maximum(self) -> float:
        """Upper bound, in workers; may be infinite. May be set while it is at work."""
        return self.options.maximum

    @maximum.setter
    def maximum(self, value: float) -> None:
        self._change(maximum=worker_bound("maximum", value))

    @property
    def interval(self) -> float:
        """Seconds between two questions for the target."""
        return self.options.interval

    @property
    def wait_count(self) -> int:
        """The calm window, in intervals."""
        return self.options.wait_count

    @property
    def target_duration(self) -> float:
        """Seconds that a computation should take."""
        return self.options.target_duration

    @property
    def calm(self) -> float:
        """Seconds for which the target must have been lower before workers leave."""
        return self.options.calm

    def start(self) -> None:
        """Begin, with a first step at once. Only in the cluster's event loop."""
        callback = PeriodicCallback(self.step, self.interval * 1000)
        self.periodic_callback = callback
        self._state = "running"
        callback.start()
        self._first = asyncio.ensure_future(self.step())

    async def adapt(self) -> None:
        """Ask for the target now and scale to it, not only at the next interval."""
        await self.step()

    async def step(self) -> None:
        """Ask for the target once and scale to it, unless a step is under way."""
        if self._stepping or self._state != "running":
            return
        self._stepping = True
        try:
            await self._step()
        finally:
            self._stepping = False

    def stop(self, reason: str = "stop() was called") -> None:
        """Stop; the target stays where it is. Stopping twice is no error.

        Parameters
        ----------
        reason
            For the history.
        """
        self._stopped(self, reason)

    def ended(self) -> bool:
        """End the callback; return whether it was at work. In the event loop only."""
        was, self._state = self._state, "stopped"
        if self.periodic_callback is not None:
            self.periodic_callback.stop()
            self.periodic_callback = None
        return was != "stopped"

    def __repr__(self) -> str:
        high = "∞" if math.isinf(self.maximum) else f"{self.maximum:g}"
        return (
            f"<AdaptHandle {self.state}: {self.minimum}..{high} workers, "
            f"every {self.interval:g} s, calm window {self.calm:g} s>"
        )


async def ask(target: TargetFunction) -> int:
    """Ask a target function.

    Returns
    -------
    int
        Workers.

    Raises
    ------
    TargetError
        If it raises, hangs, or gives something that is no number of workers.
    """
    try:
        answer = target()
        if isawaitable(answer):
            answer = await asyncio.wait_for(answer, TARGET_TIMEOUT)
        return checked_target(answer)
    except asyncio.TimeoutError as error:
        raise TargetError(f"no answer within {TARGET_TIMEOUT:g} s") from error
    except Exception as error:
        raise TargetError(described(error)) from error


class TargetError(Exception):
    """A target function gave nothing that can be used; the message says why."""
