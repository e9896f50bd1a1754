"""Close what is still open when the process ends in the ordinary way."""

from __future__ import annotations

import atexit
import logging
from typing import Any, Protocol
from weakref import WeakSet

from dask_fleet.cluster.arguments import described

logger = logging.getLogger(__name__)


class Closable(Protocol):
    """Something with ``close``; closing twice is no error."""

    shutdown_on_close: bool

    def close(self, timeout: str | float | None = None) -> Any:
        """Close it."""


#: Every cluster of this process that still exists.
_LIVE: WeakSet[Closable] = WeakSet()


def close_at_exit(cluster: Closable) -> None:
    """Close a cluster at the end of the process, if it still exists by then."""
    _LIVE.add(cluster)


@atexit.register
def _close_all() -> None:
    for cluster in list(_LIVE):
        if cluster.shutdown_on_close:
            try:
                cluster.close()
            except Exception as error:  # noqa: BLE001  # the others still have to close
                logger.warning("closing at exit failed: %s", described(error))
