"""The last words of workers that leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from distributed import Scheduler
from distributed.scheduler import WorkerState

logger = logging.getLogger(__name__)

#: Seconds that fetching the logs of somebody who leaves may take.
LOG_LIMIT = 5.0


async def fetch_logs(
    scheduler: Scheduler, workers: Sequence[WorkerState]
) -> dict[str, str]:
    """Fetch what workers have logged, by name; nothing if it takes too long.

    Parameters
    ----------
    scheduler
        The scheduler.
    workers
        Of whom.
    """
    names = {ws.address: str(ws.name) for ws in workers}
    if not names:
        return {}
    try:
        call = scheduler.get_worker_logs(workers=list(names))
        logs = await asyncio.wait_for(call, LOG_LIMIT)
    except (OSError, asyncio.TimeoutError) as error:
        logger.info("logs of %s could not be kept: %r", list(names.values()), error)
        return {}
    return {names[address]: joined(lines) for address, lines in logs.items()}


def joined(lines: Iterable[tuple[str, str]]) -> str:
    r"""Join lines of a log that come with their levels.

    Examples
    --------
    >>> joined([("INFO", "hello"), ("ERROR", "world")])
    'hello\nworld'
    """
    return "\n".join(line for _, line in lines)
