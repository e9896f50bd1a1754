"""What runs inside the scheduler's process: who leaves, and how, without losing work.

``rank.py`` chooses who leaves; it is pure. ``survey.py`` and ``copies.py`` read what
the choice needs from the scheduler's state, without ever holding its event loop for
long, ``verdict.py`` holds back whose results would not fit elsewhere; ``ranking.py``
puts these together. ``drain.py`` lets the chosen finish: ``gate.py`` keeps new work
away from them, ``moving.py`` moves their results away. ``plugin.py`` installs all of it
as handlers of the scheduler. While nobody leaves, none of it does anything.
"""

from dask_fleet.scheduler.drain import TAKEN_BACK
from dask_fleet.scheduler.plugin import PLUGIN_NAME, FleetPlugin
from dask_fleet.scheduler.rank import Candidate, Choice, choose

__all__ = [
    "PLUGIN_NAME",
    "TAKEN_BACK",
    "Candidate",
    "Choice",
    "FleetPlugin",
    "choose",
]
