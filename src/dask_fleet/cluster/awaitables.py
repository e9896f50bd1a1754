"""Something that may be awaited, or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any


class After:
    """Awaiting it waits; leaving it alone costs nothing and warns of nothing.

    Parameters
    ----------
    wait
        Called when, and only when, somebody awaits.
    """

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()
