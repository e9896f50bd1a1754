"""Deciding: facts in, commands out. Nothing here waits, asks, writes or draws lots.

Theory of operation
===================

A *fleet* is a set of instances, each with one or several workers. Somebody sets a
*target*, the number of workers that should exist. Everything else follows from one
pure function, run again whenever something may have changed::

    snapshot = fleet.snapshot(now, seen)     # the facts, all of them
    decision = decide(snapshot)              # what follows from them
    fleet.commit(decision)                   # the books are brought up to date
    ... the shell performs decision.commands, one call each ...
    fleet.apply(answer, now)                 # what became of them: again facts

House rule one: *everything that decides lives in this package.*
House rule two: *it does not know which resource manager it serves.*

The sets
--------
Each instance is in exactly one state (``states.py``), so each is in exactly one set:

- *present*: planned, requested, arrived, lost. They count towards the target.
- *on the way out*: draining, leaving, failed. They count neither as supply nor as
  surplus, so nothing is removed twice and nothing is replaced too late.
- *foreign*: names that the scheduler sees and the books do not have. They are shown,
  never touched, unless the name belonged to an instance that is over: then it is
  turned away, for a name is never given to a second process.

The order of steps
------------------
``decide`` looks at the whole present state and never relies on having seen an event:

1. *observe* (``observe.py``): compare the books with what the scheduler sees and with
   the endings that the resource manager told of. This is the only place where
   arrivals, losses and deaths enter the books.
2. *limit* (``limits.py``): the target passes the stack of limiters and becomes the
   number of workers that are *allowed* to be present now.
3. *tidy*: what failed, was lost for too long or does not leave is released (again).
4. *grow or shrink*: with fewer present than allowed, drains are taken back and new
   instances planned and asked for; with more, surplus leaves in the order that
   ``leaving.py`` writes down. Never both in one decision.

Conflict rules
--------------
- A command is given once. While its answer is out, ``asked_at`` is set and the
  instance is left alone. The shell owes every command an answer within its deadline.
- Unknown is read in the cautious direction. While the scheduler is silent nothing is
  seen as lost and nothing that had arrived is asked to leave.
- What the scheduler refuses to retire goes back to work; it is asked again later.
- Whatever wakes us, waiting is data: ``wake_at`` says when time alone changes
  something.

Known to be ugly
----------------
- An instance may be seen before its start was accepted (a quick worker, a slow
  answer). It passes through *requested* in the same step, and the late answer is
  ignored.
- The ranking is a fact that the core has to ask for. So a shrink of arrived workers
  takes two decisions: one that asks and one that acts on the fresh answer.
"""

from dask_fleet.core.causes import Cause, Reason
from dask_fleet.core.commands import (
    AskRanking,
    Command,
    Drain,
    Recall,
    Release,
    Start,
    TurnAway,
)
from dask_fleet.core.decide import Decision, decide
from dask_fleet.core.endings import Ending, EndingKind
from dask_fleet.core.events import Event, EventLog
from dask_fleet.core.facts import (
    Accepted,
    Ended,
    Fact,
    Kept,
    Ranked,
    RankFailed,
    Recalled,
    RecallRefused,
    Refused,
    Released,
    ReleaseFailed,
    Retired,
    TurnedAway,
)
from dask_fleet.core.failures import FailureMemory
from dask_fleet.core.fleet import Fleet
from dask_fleet.core.instance import Instance
from dask_fleet.core.recommendation import Recommendation
from dask_fleet.core.settings import Deadlines, Growth, Limits, Patience, Settings
from dask_fleet.core.snapshot import Snapshot
from dask_fleet.core.states import IllegalMove, State

__all__ = [
    "Accepted",
    "AskRanking",
    "Cause",
    "Command",
    "Deadlines",
    "Decision",
    "Drain",
    "Ended",
    "Ending",
    "EndingKind",
    "Event",
    "EventLog",
    "Fact",
    "FailureMemory",
    "Fleet",
    "Growth",
    "IllegalMove",
    "Instance",
    "Kept",
    "Limits",
    "Patience",
    "RankFailed",
    "Ranked",
    "Reason",
    "Recall",
    "RecallRefused",
    "Recalled",
    "Recommendation",
    "Refused",
    "Release",
    "ReleaseFailed",
    "Released",
    "Retired",
    "Settings",
    "Snapshot",
    "Start",
    "State",
    "TurnAway",
    "TurnedAway",
    "decide",
]
