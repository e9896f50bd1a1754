"""The ``dask fleet`` commands.

``options.py`` reads the command line, ``build.py`` makes a cluster from it,
``session.py`` runs one from start to end with ``command.py`` (the user's program),
``signals.py`` (who gets which signal), ``watch.py`` (what is going on, and
``ledger.py``, what it cost) and ``display.py`` (how it is shown; ``terminal.py`` and
``screen.py`` below it keep the live block in place).
"""

from dask_fleet.cli.main import fleet

__all__ = ["fleet"]
