"""Tell of a failed start once: in the cluster's history, not in tracebacks as well."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

#: What distributed's nanny logs, with a traceback, before it raises the same error to
#: whoever had started it.
_TOLD_ELSEWHERE = frozenset({"Failed to start process"})

_lock = threading.Lock()
#: How many clusters of this process want it; the filter is installed while any does.
_users = 0


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in _TOLD_ELSEWHERE


@contextlib.contextmanager
def failed_starts_untold() -> Iterator[None]:
    """Keep the nannies of this process from logging what they raise anyway."""
    global _users
    logger = logging.getLogger("distributed.nanny")
    with _lock:
        _users += 1
        logger.addFilter(_is_news)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                logger.removeFilter(_is_news)
