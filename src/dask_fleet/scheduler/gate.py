"""Keep new work away from workers that are about to leave.

They count as *closing gracefully* on the scheduler alone: it gives them no new task,
and the workers themselves, which are not told, go on with what they have. Two messages
of workers could undo that, so they pass here first:

- a worker that had paused and resumes says that it is *running*. That is noted for the
  day it may work again, and goes no further;
- a task may be on its way from one worker to another that was chosen as a thief before
  it was shut. Then the scheduler decides anew where the task goes.

A third message is an answer to us: tasks that a worker has not begun are asked back by
the means of work stealing, so that the worker gives up only what it is not running, and
then the scheduler decides where they go.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from distributed import Scheduler
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

STIMULUS = "fleet-drain"

#: States of a task on a worker that has not begun it and has now given it up, or does
#: not know it. These are the words of the answer to a steal request.
_GIVEN_UP = frozenset({"ready", "constrained", "waiting", "released", None})

#: So many tasks are asked back at a time: each answer costs the scheduler a transition.
PORTION = 200


@dataclass(slots=True)
class _Shut:
    """A worker that is shut: what it has said of itself, and how often it was shut."""

    ws: WorkerState
    status: Status
    times: int = 0


class _Portion:
    """Tasks that were asked back together: how many answers are still out."""

    def __init__(self) -> None:
        self.left = 0
        self.answered = asyncio.Event()

    def note_answer(self) -> None:
        self.left -= 1
        if not self.left:
            self.answered.set()


@dataclass(frozen=True, slots=True)
class _Request:
    """A task that was asked back, in the run in which it was asked."""

    ts: TaskState
    ws: WorkerState
    run_id: int | None
    portion: _Portion


class Gate:
    """Shuts workers for new work and opens them again.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._shut: dict[str, _Shut] = {}
        self._requests: dict[str, _Request] = {}
        self._numbers = itertools.count()
        handlers = scheduler.stream_handlers
        self._handle_status = handlers["worker-status-change"]
        handlers["worker-status-change"] = self._status_changed
        # Absent in a scheduler without the extension.
        self._handle_steal = handlers.get("steal-response")
        handlers["steal-response"] = self._steal_answered

    def is_shut(self, ws: WorkerState) -> bool:
        """Whether a worker gets no new work because of us."""
        shut = self._shut.get(ws.address)
        return shut is not None and shut.ws is ws

    def shut(self, workers: Iterable[WorkerState]) -> None:
        """Give these workers no new task. What they run goes on."""
        for ws in workers:
            if not self.is_shut(ws):
                self._shut[ws.address] = _Shut(ws, ws.status)
            self._shut[ws.address].times += 1
            self._scheduler.handle_worker_status_change(
                Status.closing_gracefully, ws, STIMULUS
            )

    def open(self, workers: Iterable[WorkerState]) -> None:
        """Let these workers work again, if they were not shut by somebody else too."""
        for ws in workers:
            said = self._shut.get(ws.address)
            if said is None or said.ws is not ws:
                continue
            said.times -= 1
            if said.times:
                continue
            del self._shut[ws.address]
            if self._scheduler.workers.get(ws.address) is not ws:
                continue
            if said.status is Status.closing_gracefully:
                # Somebody else has told it to stop. It answers with its new status.
                self._scheduler.worker_send(
                    ws.address,
                    {
                        "op": "worker-status-change",
                        "status": Status.running.name,
                        "stimulus_id": STIMULUS,
                    },
                )
                continue
            self._scheduler.handle_worker_status_change(said.status, ws, STIMULUS)

    def forget(self, ws: WorkerState) -> None:
        """A worker is gone: it answers no more."""
        if self.is_shut(ws):
            del self._shut[ws.address]
        gone = [number for number, one in self._requests.items() if one.ws is ws]
        for number in gone:
            self._requests.pop(number).portion.note_answer()

    # -- messages of workers -----------------------------------------------------------

    def _status_changed(self, status: str, worker: str, stimulus_id: str) -> None:
        shut = self._shut.get(worker)
        if shut is not None and shut.ws is self._scheduler.workers.get(worker):
            shut.status = Status[status]
            if shut.status in (Status.running, Status.paused):
                return
        self._handle_status(status=status, worker=worker, stimulus_id=stimulus_id)

    def _steal_answered(
        self, key: Any, state: str | None, stimulus_id: str, worker: str | None = None
    ) -> None:
        request = self._requests.pop(stimulus_id, None)
        if request is not None:
            self._take_back(request, state)
            request.portion.note_answer()
        elif not self._decide_anew(key, state, stimulus_id) and self._handle_steal:
            self._handle_steal(
                key=key, state=state, stimulus_id=stimulus_id, worker=worker
            )

    # -- tasks that were not begun -------------------------------------------------

    def _take_back(self, request: _Request, state: str | None) -> None:
        """Let the scheduler decide where a task goes that its worker has given up."""
        ts = request.ts
        if (
            state in _GIVEN_UP
            and ts.processing_on is request.ws
            and ts.run_id == request.run_id
        ):
            self._scheduler.transitions({ts.key: "released"}, STIMULUS)

    def _decide_anew(self, key: Any, state: str | None, stimulus_id: str) -> bool:
        """Keep a task that is being stolen from a thief that has been shut meanwhile.

        The stealing itself hears of the transition and forgets what it had in mind.
        """
        if not self._shut or state not in _GIVEN_UP:
            return False
        stealing = self._scheduler.extensions.get("stealing")
        ts = self._scheduler.tasks.get(key)
        info = stealing.in_flight.get(ts) if stealing is not None else None
        if (
            ts is None
            or info is None
            or info["stimulus_id"] != stimulus_id
            or not self.is_shut(info["thief"])
        ):
            return False
        self._scheduler.transitions({key: "released"}, STIMULUS)
        return True

    async def ask_back(self, ws: WorkerState) -> None:
        """Ask back the tasks that a worker has not begun, and that others may run.

        The next ones in the order of the worker first, a portion at a time.
        """
        tasks = sorted(ws.processing, key=lambda ts: ts.priority or ())
        movable = [ts for ts in tasks if ts not in ws.long_running]
        for begin in range(0, len(movable), PORTION):
            portion = self._ask(ws, movable[begin : begin + PORTION])
            if portion.left:
                await portion.answered.wait()

    def _ask(self, ws: WorkerState, tasks: Iterable[TaskState]) -> _Portion:
        portion = _Portion()
        for ts in tasks:
            if ts.processing_on is not ws or not self._has_other_place(ts):
                continue
            number = f"fleet-steal-{next(self._numbers)}"
            self._requests[number] = _Request(ts, ws, ts.run_id, portion)
            portion.left += 1
            self._scheduler.worker_send(
                ws.address,
                {"op": "steal-request", "key": ts.key, "stimulus_id": number},
            )
        return portion

    def _has_other_place(self, ts: TaskState) -> bool:
        """Whether others may run a task, now or once there are some."""
        scheduler = self._scheduler
        valid = scheduler.valid_workers(ts)
        if valid is None:
            return True
        # A preference counts for nothing only while somebody is there: a task that
        # waits for a worker is never given to others than those it names.
        return bool(valid & scheduler.running or ts.loose_restrictions) and bool(
            scheduler.running
        )
