"""The one task that brings the world to the target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from dask_fleet.cluster.arguments import described
from dask_fleet.cluster.performer import Performer
from dask_fleet.cluster.pulse import Pulse
from dask_fleet.core import (
    Cause,
    Command,
    Decision,
    Fact,
    Fleet,
    Reason,
    Snapshot,
    decide,
)

logger = logging.getLogger(__name__)

#: After a fault of our own: seconds before the next look.
FAULT_PAUSE = 1.0


class Reconciler:
    """Looks, decides, performs, and sleeps until something may have changed.

    It is level-triggered: each time it looks at everything. While nothing happens and
    no decision asked to be woken, it does nothing at all.

    Parameters
    ----------
    fleet
        The books.
    performer
        Turns commands into calls.
    seen
        Gives the names that the scheduler sees; ``None`` if it is silent.
    decided
        Told of each decision, with the snapshot it was made from.
    happened
        Told of reasons that come with the answer to a command.
    pulse
        Beaten after each look.
    """

    def __init__(
        self,
        fleet: Fleet,
        performer: Performer,
        seen: Callable[[], frozenset[str] | None],
        decided: Callable[[Snapshot, Decision], None],
        happened: Callable[[list[Reason]], None],
        pulse: Pulse,
    ) -> None:
        self._fleet = fleet
        self._performer = performer
        self._seen = seen
        self._decided = decided
        self._happened = happened
        self._pulse = pulse
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Calls under way. Their answers are owed to the books.
        self._calls: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="fleet reconciler")

    async def stop(self) -> None:
        """End, with all calls under way."""
        tasks = [*self._calls, *([self._task] if self._task else [])]
        self._task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Something may have changed; look soon. Only from the loop's own thread."""
        self._woken.set()

    def apply(self, fact: Fact) -> None:
        """Take note of a fact, and look soon."""
        reasons = self._fleet.apply(fact, monotonic())
        if reasons:
            self._happened(reasons)
        self.wake()

    def look(self) -> float | None:
        """Look and decide now; return when to look again (monotonic seconds)."""
        snapshot = self._fleet.snapshot(monotonic(), self._seen())
        decision = decide(snapshot)
        self._decided(snapshot, decision)
        self._fleet.commit(decision)
        for command in decision.commands:
            self._perform(command)
        self._pulse.beat()
        return decision.wake_at

    def _perform(self, command: Command) -> None:
        task = asyncio.create_task(self._call(command), name=f"fleet {command!r:.60}")
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _call(self, command: Command) -> None:
        try:
            async for fact in self._performer.perform(command):
                self.apply(fact)
        except Exception as error:
            logger.exception("performing a command failed")
            self._fault("performing", error)

    def _fault(self, doing: str, error: Exception) -> None:
        """Tell of a fault of ours, which must not end the loop."""
        figures = {"call": doing, "detail": described(error)}
        self._happened([Reason(Cause.CALL_FAILED, figures=figures)])

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                wake_at = self.look()
            except Exception as error:
                logger.exception("a decision failed")
                self._fault("deciding", error)
                wake_at = monotonic() + FAULT_PAUSE
            await self._sleep_until(wake_at)

    async def _sleep_until(self, wake_at: float | None) -> None:
        """Return when woken, or at ``wake_at``."""
        if wake_at is None:
            await self._woken.wait()
            return
        loop = asyncio.get_running_loop()
        # A hair later than asked: never wake before the moment that was waited for.
        delay = max(0.0, wake_at - monotonic()) + 0.001
        timer = loop.call_later(delay, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
