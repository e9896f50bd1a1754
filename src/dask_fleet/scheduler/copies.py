"""What candidates hold alone, and what several of them hold.

The scheduler keeps the bytes that each worker holds, and a set of the results that have
several copies. So only the latter have to be looked at one by one: what a worker holds
alone is what remains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distributed import Scheduler
from distributed.core import Status
from distributed.scheduler import TaskState, WorkerState

from dask_fleet.scheduler.breather import STRIDE, Breather
from dask_fleet.scheduler.rank import Holders

#: A worker in one of these has not been told to leave.
STAYING = frozenset({Status.init, Status.running, Status.paused})


class Copies:
    """Counts the bytes of candidates.

    Parameters
    ----------
    scheduler
        The scheduler.
    groups
        The workers of each candidate.
    home
        The position of the candidate of each worker, by its address.

    Attributes
    ----------
    own
        Of each candidate, the bytes of results that only it holds.
    shared
        Bytes of results that only candidates hold, several of them, by who.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        groups: Sequence[Sequence[WorkerState]],
        home: Mapping[str, int],
    ) -> None:
        self._scheduler = scheduler
        self._groups = groups
        self._home = home
        self.own = [sum(ws.nbytes for ws in group) for group in groups]
        self.shared: dict[Holders, int] = {}

    async def count(self, breather: Breather) -> None:
        """Look at the results that have several copies."""
        everywhere, everybody = 0, len(self._scheduler.workers)
        somebody_stays = self._somebody_stays()
        own, shared, get = self.own, self.shared, self._home.get
        looked = 0
        tasks = list(self._scheduler.replicated_tasks)
        await breather.breathe()
        for ts in tasks:
            who = ts.who_has
            count = len(who) if who else 0
            if who and count == 2:
                # By far the most common case, so it is written for speed.
                first, second = who
                i, j = get(first.address), get(second.address)
                if i is None or j is None or i == j:
                    self._note(ts)
                else:
                    nbytes = ts.nbytes
                    own[i] -= nbytes
                    own[j] -= nbytes
                    pair = (i, j) if i < j else (j, i)
                    shared[pair] = shared.get(pair, 0) + nbytes
            elif count == everybody:
                everywhere += ts.nbytes
                count = 1
            else:
                self._note(ts)
            looked += count
            if looked > STRIDE:
                looked = 0
                await breather.breathe()
        if everywhere:
            self._note_everywhere(everywhere, somebody_stays)

    def _note(self, ts: TaskState) -> None:
        """Look at one that has several copies."""
        home, nbytes = self._home, ts.nbytes
        holders = sorted(
            [home[ws.address] for ws in ts.who_has or () if ws.address in home]
        )
        for index in holders:
            self.own[index] -= nbytes
        if not holders or self._is_kept(ts, len(holders)):
            return
        if holders[0] == holders[-1]:
            self.own[holders[0]] += nbytes
        else:
            together = tuple(dict.fromkeys(holders))
            self.shared[together] = self.shared.get(together, 0) + nbytes

    def _is_kept(self, ts: TaskState, candidates: int) -> bool:
        """Whether a worker that stays for sure holds a result.

        Holders that are about to leave already do not count: nobody should rely on
        them.
        """
        return candidates < len(ts.who_has or ()) and any(
            ws.status in STAYING and ws.address not in self._home
            for ws in ts.who_has or ()
        )

    def _somebody_stays(self) -> bool:
        return any(
            ws.status in STAYING and ws.address not in self._home
            for ws in self._scheduler.workers.values()
        )

    def _note_everywhere(self, nbytes: int, somebody_stays: bool) -> None:
        """Note what every single worker has, such as what was broadcast."""
        for index, group in enumerate(self._groups):
            self.own[index] -= nbytes * len(group)
        if somebody_stays or not self._groups:
            return
        if len(self._groups) == 1:
            self.own[0] += nbytes
        else:
            everybody = tuple(range(len(self._groups)))
            self.shared[everybody] = self.shared.get(everybody, 0) + nbytes
