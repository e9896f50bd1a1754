"""What the author of a new kind of cluster may give back, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dask_fleet.core import Ending, EndingKind

#: What ``scale_up`` may return: nothing, or the refused names and why.
Refusals = Mapping[str, "str | Ending"] | None


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What the resource manager says of one worker name.

    Parameters
    ----------
    state
        ``"pending"``, ``"running"`` or ``"gone"``.
    detail
        Its own words: why it waits, or how it ended.
    kind
        The class of the ending, if it is gone.

    Examples
    --------
    >>> WorkerReport("gone", "exit code 1", EndingKind.CRASHED).state
    'gone'
    """

    state: Literal["pending", "running", "gone"]
    detail: str = ""
    kind: EndingKind = EndingKind.VANISHED


def read_refusals(returned: object, asked: list[str]) -> dict[str, Ending]:
    """Read what ``scale_up`` returned.

    Parameters
    ----------
    returned
        ``None``, or a mapping from refused names to the reason.
    asked
        The names that were asked for.

    Raises
    ------
    TypeError
        If it is something else, or names somebody who was not asked for.
    """
    if returned is None:
        return {}
    problem = (
        "scale_up must return None or a mapping from refused names to the reason; got "
    )
    if not isinstance(returned, Mapping):
        raise TypeError(f"{problem}{returned!r}")
    strange = set(map(str, returned)) - set(asked)
    if strange:
        raise TypeError(f"{problem}{returned!r}, where {strange!r} were not asked for")
    return {
        str(name): why
        if isinstance(why, Ending)
        else Ending(EndingKind.REJECTED, str(why))
        for name, why in returned.items()
    }


def read_reports(returned: object) -> dict[str, WorkerReport]:
    """Read what ``poll`` returned.

    Parameters
    ----------
    returned
        A mapping from names to reports.

    Raises
    ------
    TypeError
        If it is something else.
    """
    problem = "poll must return a mapping from names to WorkerReport; got "
    if not isinstance(returned, Mapping):
        raise TypeError(f"{problem}{returned!r}")
    for name, report in returned.items():
        if not isinstance(report, WorkerReport):
            raise TypeError(f"{problem}{report!r} for {name!r}")
    return {str(name): report for name, report in returned.items()}
