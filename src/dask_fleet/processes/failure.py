"""An exception on its way from one process to another."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

from dask_fleet.processes.errors import RemoteTraceback
from dask_fleet.processes.pickling import dumps


@dataclass(frozen=True)
class Failure:
    """An exception with its causes and its traceback, fit to be pickled.

    Every exception of the chain is pickled on its own, so that one which cannot be
    pickled (or not be read on the other side) does not hide the others.

    Examples
    --------
    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     failure = Failure.of(error)
    >>> failure.exception()
    ZeroDivisionError('division by zero')
    """

    links: tuple[_Link, ...]
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Wrap an exception that has been raised."""
        links: list[_Link] = []
        link: BaseException | None = error
        while link is not None and len(links) < 10:
            links.append(_Link.of(link))
            link = _cause(link)
        text = "".join(traceback.format_exception(error))
        return cls(tuple(links), text)

    def exception(self) -> BaseException:
        """Return the exception; the last of its causes is the remote traceback."""
        cause: BaseException = RemoteTraceback(self.traceback)
        for link in reversed(self.links):
            error = link.load()
            error.__cause__ = cause
            cause = error
        return cause


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


@dataclass(frozen=True)
class _Link:
    pickled: bytes | None
    words: str

    @classmethod
    def of(cls, error: BaseException) -> _Link:
        words = "".join(traceback.format_exception_only(error)).strip()
        try:
            return cls(dumps(error), words)
        except Exception:  # noqa: BLE001  -- any class may refuse; its words remain
            return cls(None, words)

    def load(self) -> BaseException:
        if self.pickled is not None:
            try:
                error = pickle.loads(self.pickled)
            except Exception:  # noqa: BLE001  -- as above, on the reading side
                error = None
            if isinstance(error, BaseException):
                return error
        return RuntimeError(self.words)
