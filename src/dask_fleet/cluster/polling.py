"""Ask the resource manager what has become of its instances, while that is of use.

Only a cluster that has the hook ``poll`` does so. While nothing is requested nothing
is asked, and while all is well it is asked rarely: a worker that arrives or leaves is
noticed by the scheduler anyway.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic

from dask_fleet.cluster.arguments import described
from dask_fleet.cluster.hooks import WorkerReport, read_reports
from dask_fleet.core import Cause, Ending, EndingKind, Fleet, Instance, Reason, State
from dask_fleet.core.causes import because
from dask_fleet.core.states import REQUESTED_STATES

#: The hook.
Poll = Callable[[], Awaitable[Mapping[str, WorkerReport]]]

#: So many times longer are the pauses while everything that was requested is there.
CALM_FACTOR = 6

#: A loss is asked about at once, but not sooner than this after the last question.
SHORTEST_PAUSE = 1.0


class Poller:
    """Asks at intervals, and turns what is gone into endings.

    Parameters
    ----------
    poll
        The hook.
    fleet
        The books.
    ended
        Told of an instance that is gone: its token and how it ended.
    happened
        Told when asking has failed, once per change.
    interval
        Seconds between two questions while something is waited for.
    limit
        Seconds that an answer may take.
    """

    def __init__(
        self,
        poll: Poll,
        fleet: Fleet,
        ended: Callable[[str, Ending], None],
        happened: Callable[[list[Reason]], None],
        interval: float,
        limit: float,
    ) -> None:
        self._poll = poll
        self._fleet = fleet
        self._ended = ended
        self._happened = happened
        self._interval = interval
        self._limit = limit
        #: Why those wait that have not started, in the resource manager's words.
        self.waiting: Mapping[str, str] = {}
        self._asked_at: float | None = None
        self._problem: str | None = None
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="fleet poller")

    async def stop(self) -> None:
        """End, with a question that is out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """The books have changed: there may be something to ask about now."""
        self._woken.set()

    def with_details(self, reasons: Iterable[Reason]) -> list[Reason]:
        """Complete what is said of those who are late with why they wait."""
        return [self._with_detail(reason) for reason in reasons]

    def _with_detail(self, reason: Reason) -> Reason:
        known = [self.waiting[name] for name in reason.workers if name in self.waiting]
        if reason.cause is not Cause.LATE or not known:
            return reason
        figures = {**reason.figures, "detail": f": {known[0]}"}
        return Reason(reason.cause, reason.workers, figures)

    # -- the loop ------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            pause = self._pause(monotonic())
            if pause > 0:
                await self._sleep(pause)
            else:
                await self._ask()

    def _pause(self, now: float) -> float:
        """Return for how long nothing needs to be asked."""
        requested = [
            one
            for one in self._fleet.instances.values()
            if one.state in REQUESTED_STATES
        ]
        if not requested:
            self._asked_at = None
            self.waiting = {}
            return math.inf
        if self._asked_at is None:
            # Nobody can tell more of a start that was accepted a moment ago.
            self._asked_at = now
        return self._asked_at + self._interval_for(requested) - now

    def _interval_for(self, requested: list[Instance]) -> float:
        assert self._asked_at is not None
        waits = False
        for one in requested:
            lost_at = one.since if one.state is State.LOST else one.missing_since
            if lost_at is not None and lost_at > self._asked_at:
                return min(self._interval, SHORTEST_PAUSE)
            waits = waits or lost_at is not None or one.state is State.REQUESTED
        return self._interval * (1 if waits else CALM_FACTOR)

    async def _sleep(self, pause: float) -> None:
        if math.isinf(pause):
            await self._woken.wait()
            return
        timer = asyncio.get_running_loop().call_later(pause, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    # -- one question --------------------------------------------------------------

    async def _ask(self) -> None:
        try:
            answer = await asyncio.wait_for(self._poll(), self._limit)
            reports = read_reports(answer)
        except asyncio.TimeoutError:
            self._failed(f"no answer within {self._limit:g} s")
        except Exception as error:  # noqa: BLE001  # code that is not ours
            self._failed(described(error))
        else:
            self._problem = None
            self._take(reports)
        self._asked_at = monotonic()

    def _failed(self, problem: str) -> None:
        """Nothing is known; nothing is judged."""
        if problem != self._problem:
            self._problem = problem
            self._happened([because(Cause.CALL_FAILED, call="poll", detail=problem)])

    def _take(self, reports: Mapping[str, WorkerReport]) -> None:
        """Judge those that are named; the others are not judged."""
        home = {
            name: one
            for one in self._fleet.instances.values()
            if one.state in REQUESTED_STATES
            for name in one.workers
        }
        known = {name: report for name, report in reports.items() if name in home}
        self.waiting = {
            name: report.detail
            for name, report in known.items()
            if report.state == "pending" and report.detail
        }
        gone = {
            home[name].token: _ending(home[name], report)
            for name, report in known.items()
            if report.state == "gone"
        }
        for token, ending in gone.items():
            self._ended(token, ending)


def _ending(one: Instance, report: WorkerReport) -> Ending:
    """Return how an instance ended; one that had arrived has not vanished before."""
    kind = report.kind
    if kind is EndingKind.VANISHED and one.seen_at is not None:
        kind = EndingKind.CRASHED
    return Ending(kind, report.detail or "the resource manager says that it is gone")
