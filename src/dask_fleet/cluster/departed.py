"""The logs of workers that are gone, for those who ask later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping


class DepartedLogs:
    """Remembers the logs of the last workers that left.

    Parameters
    ----------
    length
        Of how many workers.

    Examples
    --------
    >>> logs = DepartedLogs(1)
    >>> logs.keep({"0": "hello"}); logs.keep({"1": "world"})
    >>> dict(logs.all)
    {'1': 'world'}
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._logs: OrderedDict[str, str] = OrderedDict()

    @property
    def all(self) -> Mapping[str, str]:
        """Logs by worker name, the latest last."""
        return self._logs

    def keep(self, logs: Mapping[str, str]) -> None:
        """Remember some logs."""
        for name, text in logs.items():
            self._logs[name] = text
            self._logs.move_to_end(name)
        while len(self._logs) > self.length:
            self._logs.popitem(last=False)
