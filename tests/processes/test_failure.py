"""Exceptions keep their kind, their causes and their traceback on the way."""

from __future__ import annotations

import pickle
from typing import Any, NoReturn

import pytest

from dask_fleet.processes.errors import (
    ForkServerError,
    MainGuardError,
    ProcessEnded,
    RemoteTraceback,
)
from dask_fleet.processes.failure import Failure
from dask_fleet.processes.report import ExitReport
from tests.processes.support import causes


class CannotBeRead(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class CannotBePickled(Exception):
    def __reduce__(self) -> NoReturn:
        raise TypeError("never")


def _sent(error: BaseException) -> list[BaseException]:
    with pytest.raises(type(error)) as caught:
        raise error
    failure = pickle.loads(pickle.dumps(Failure.of(caught.value)))
    return causes(failure.exception())


def test_traceback_comes_along() -> None:
    error, cause = _sent(LookupError("nothing there"))
    assert repr(error) == "LookupError('nothing there')"
    assert type(cause) is RemoteTraceback
    assert "_sent" in str(cause)


def test_causes_come_along() -> None:
    outer = RuntimeError("outer")
    outer.__cause__ = ValueError("inner")
    outer.__cause__.__cause__ = KeyError("innermost")
    kinds = [type(error) for error in _sent(outer)]
    assert kinds == [RuntimeError, ValueError, KeyError, RemoteTraceback]


def test_context_comes_along_unless_suppressed() -> None:
    def raised(suppressed: bool) -> BaseException:
        try:
            try:
                raise KeyError("first")
            except KeyError:
                raise RuntimeError("second") from (None if suppressed else KeyError())
        except RuntimeError as error:
            return error

    assert len(_sent(raised(suppressed=True))) == 2
    assert len(_sent(raised(suppressed=False))) >= 3


@pytest.mark.parametrize("error", [CannotBeRead(1, 2), CannotBePickled("1 and 2")])
def test_one_that_cannot_travel_does_so_as_words(error: Exception) -> None:
    outer = RuntimeError("outer")
    outer.__cause__ = error
    kinds: list[Any] = _sent(outer)
    assert type(kinds[0]) is RuntimeError
    assert type(kinds[1]) is RuntimeError
    assert str(kinds[1]).endswith("1 and 2")
    assert type(error).__name__ in str(kinds[1])


def test_our_own_errors_can_be_pickled() -> None:
    report = ExitReport(17, 3, "last words")
    errors = [MainGuardError(), ForkServerError("why"), ProcessEnded(report)]
    for error in errors:
        copied = pickle.loads(pickle.dumps(error))
        assert (type(copied), str(copied)) == (type(error), str(error))
    assert pickle.loads(pickle.dumps(errors[2])).report == report
