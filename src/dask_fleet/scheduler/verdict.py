"""From a choice to an answer: what fits into memory leaves, the rest is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

from dask_fleet.scheduler.rank import Choice, choose
from dask_fleet.scheduler.survey import Picture


@dataclass(frozen=True, slots=True)
class Answer:
    """Who should leave, and why not more.

    Parameters
    ----------
    workers
        Names, cheapest first, whole groups together.
    detail
        Why fewer than asked for; empty if as many.
    """

    workers: tuple[str, ...]
    detail: str

    def to_message(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"workers": list(self.workers), "detail": self.detail}


def answer(picture: Picture, surplus: int, missing: int) -> Answer:
    """Choose who leaves, and hold back those whose results would not fit elsewhere.

    Parameters
    ----------
    picture
        The state it is made from.
    surplus
        Workers that should leave.
    missing
        Workers that may not leave at all: an actor, a driver, a plugin's word.
    """
    choice = choose(picture.candidates, picture.shared, surplus)
    wanted = len(choice.leavers)
    while choice.leavers and not _fits(picture, choice):
        _give_up_last(picture, choice)
    names = tuple(
        name for index in choice.leavers for name in picture.candidates[index].workers
    )
    held = [
        index for index in range(len(picture.candidates)) if index not in choice.leavers
    ]
    detail = ""
    if len(choice.leavers) < wanted:
        detail = _held_for_memory(picture, held)
    elif len(names) < surplus and missing:
        detail = f"{missing} cannot leave now (an actor, a driver task, or a plugin)"
    return Answer(names, detail)


def _fits(picture: Picture, choice: Choice) -> bool:
    """Whether those who stay can hold their results and those of the leavers."""
    leaving = set(choice.leavers)
    capacity, used = picture.capacity, picture.used + choice.nbytes
    for index in range(len(picture.candidates)):
        if index not in leaving:
            capacity += picture.room[index]
            used += picture.held[index]
    return not choice.nbytes or used <= capacity


def _give_up_last(picture: Picture, choice: Choice) -> None:
    """Let the last one stay, and reckon the bytes of the others anew."""
    choice.leavers.pop()
    leaving = set(choice.leavers)
    choice.nbytes = sum(picture.candidates[index].own_bytes for index in leaving)
    choice.nbytes += sum(one.nbytes for one in picture.shared if one.holders <= leaving)


def _held_for_memory(picture: Picture, held: list[int]) -> str:
    keys = sum(picture.keys[index] for index in held)
    nbytes = sum(picture.candidates[index].own_bytes for index in held)
    return (
        f"{keys} key(s) with {format_bytes(nbytes)} have no room elsewhere; "
        "they go on leaving once these are released"
    )
