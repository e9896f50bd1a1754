"""Answer who should leave, and why not more."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from distributed import Scheduler
from distributed.protocol import pickle
from distributed.scheduler import WorkerState

from dask_fleet.scheduler.breather import Breather
from dask_fleet.scheduler.survey import (
    Group,
    Picture,
    groups_of,
    only_copies,
    take,
)
from dask_fleet.scheduler.verdict import Verdict, judge, names_of, why_not_more

#: While somebody is held, the same question is asked about once a second. Answering it
#: takes at most this share of the scheduler's time.
SHARE = 0.05


@dataclass(frozen=True, slots=True)
class _Question:
    """Who should leave."""

    instances: Sequence[Sequence[str]]
    surplus: int
    fraction: float
    worker_key: bytes | None
    spare_pinned: bool
    spare_actors: bool


class Rankings:
    """Answers who should leave.

    Parameters
    ----------
    scheduler
        The scheduler.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: The last question to which fewer were named than asked for, its answer, and
        #: until when it holds (monotonic seconds).
        self._last: tuple[_Question, dict[str, Any], float] | None = None

    async def rank(
        self,
        instances: Sequence[Sequence[str]],
        surplus: int,
        fraction: float,
        worker_key: bytes | None = None,
        spare_pinned: bool = False,
        spare_actors: bool = True,
    ) -> dict[str, Any]:
        """Say who should leave.

        Parameters
        ----------
        instances
            Names of workers that may leave, an instance each.
        surplus
            Workers that should leave.
        fraction
            The share of a worker's memory limit that results may fill.
        worker_key
            A pickled function of a worker's state; equal keys leave together.
        spare_pinned
            Never name those that run a task which has left its thread pool.
        spare_actors
            Never name those that hold an actor, nor those whose results find no room:
            nobody can take them over.

        Returns
        -------
        dict
            ``workers``: names, cheapest first; ``detail``: why not more, or empty.
        """
        question = _Question(
            instances, surplus, fraction, worker_key, spare_pinned, spare_actors
        )
        if self._last is not None:
            asked, answer, until = self._last
            if monotonic() < until and question == asked:
                return answer
        begin = monotonic()
        answer = await self._answer(question)
        now = monotonic()
        rest = (now - begin) / SHARE
        is_short = len(answer["workers"]) < surplus
        self._last = (question, answer, now + rest) if is_short and rest > 1 else None
        return answer

    async def _answer(self, question: _Question) -> dict[str, Any]:
        key = question.worker_key
        by: Callable[[WorkerState], Hashable] | None = (
            None if key is None else pickle.loads(key)
        )
        groups, kept = groups_of(
            self._scheduler, question.instances, by, partial(_why_spared, question)
        )
        await asyncio.sleep(0)
        picture = await take(self._scheduler, groups, question.fraction)
        judging = partial(
            judge, picture, question.surplus, gentle=question.spare_actors
        )
        # It is pure, so it may have a thread to itself when it takes long.
        verdict = await asyncio.to_thread(judging) if picture.is_large else judging()
        detail = await self._why_not_more(question, picture, verdict, groups, kept)
        return {"workers": list(names_of(picture, verdict.leavers)), "detail": detail}

    async def _why_not_more(
        self,
        question: _Question,
        picture: Picture,
        verdict: Verdict,
        groups: Sequence[Group],
        kept: Counter[str],
    ) -> str:
        held = [ws for index in verdict.held for ws in groups[index].states]
        leaving = [ws for index in verdict.leavers for ws in groups[index].states]
        tasks = await only_copies(held, Breather(), {*held, *leaving})
        nbytes = sum(ts.nbytes for ts in tasks)
        return why_not_more(
            picture, verdict, question.surplus, kept, len(tasks), nbytes
        )


def _why_spared(question: _Question, ws: WorkerState) -> str:
    if question.spare_actors and ws.actors:
        return "it holds an actor, which nobody can take over"
    if question.spare_pinned and ws.long_running:
        return "it runs a task that may wait for others"
    return ""
