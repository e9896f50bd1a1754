"""What people look at. Plain records in, text out: nothing here asks a cluster.

``records.py`` says what a view is given, ``block.py`` draws the live block for a
terminal, ``lines.py`` writes the same as plain lines, ``text.py`` has the small tools
that both use.
"""

from dask_fleet.view.block import HEIGHT, block
from dask_fleet.view.lines import status_line, summary_line
from dask_fleet.view.records import Place, Status, Summary, Tasks

__all__ = [
    "HEIGHT",
    "Place",
    "Status",
    "Summary",
    "Tasks",
    "block",
    "status_line",
    "summary_line",
]
