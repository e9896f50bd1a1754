"""From a choice to an answer: what fits into memory leaves, the rest is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dask.utils import format_bytes

from dask_fleet.scheduler.rank import Board, Busyness, Choice, choose
from dask_fleet.scheduler.survey import Picture, Room

#: How many workers are named in a sentence.
NAMED = 8


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


def answer(
    picture: Picture, surplus: int, kept: Mapping[str, int], *, gentle: bool = True
) -> Answer:
    """Choose who leaves; hold back those whose results would not fit elsewhere.

    Parameters
    ----------
    picture
        The state it is made from.
    surplus
        Workers that should leave.
    kept
        How many workers may not leave at all, by the reason.
    gentle
        Hold back those whose results find no room, and a driver, whose own tasks need
        workers, as the last one. Otherwise whoever is chosen leaves.
    """
    choice = choose(picture.candidates, picture.shared, surplus)
    held = _without_room(picture, choice) if gentle else []
    driver = _last_driver(picture, choice) if gentle else None
    if driver is not None:
        position = choice.leavers.index(driver)
        del choice.leavers[position], choice.costs[position]
    names = tuple(
        name for index in choice.leavers for name in picture.candidates[index].workers
    )
    reasons = []
    if held:
        reasons.append(_held_for_memory(picture, choice, held))
    if driver is not None:
        reasons.append(
            "a task that may wait for others runs on "
            f"{_named(picture.candidates[driver].workers)}, and nobody else would work"
        )
    if len(names) < surplus:
        reasons += [f"{count} cannot leave: {why}" for why, count in kept.items()]
    return Answer(names, "; ".join(reasons))


def _without_room(picture: Picture, choice: Choice) -> list[int]:
    """Take back those whose results do not fit elsewhere; return them.

    The last ones of a choice, those with most to move, stay first: with room for
    their own results and for those of the others.
    """
    room, nbytes = picture.stays, choice.nbytes
    for index in choice.leavers:
        room -= picture.room[index]
    held = []
    while choice.leavers and not room.fits(nbytes):
        index = choice.leavers.pop()
        room += picture.room[index]
        nbytes -= choice.costs.pop()
        held.append(index)
    if len(held) > 1:
        _let_go_after_all(picture, choice, held, room)
    return held


def _let_go_after_all(
    picture: Picture, choice: Choice, held: list[int], room: Room
) -> None:
    """Let those leave after all for whom the last ones that stay have made room."""
    board = Board(picture.candidates, picture.shared)
    nbytes = sum(board.take(index) for index in choice.leavers)
    for index in reversed(held[:-1]):
        less, more = room - picture.room[index], nbytes + board.cost(index)
        if less.fits(more):
            room, nbytes = less, more
            choice.costs.append(board.take(index))
            choice.leavers.append(index)
            held.remove(index)


def _last_driver(picture: Picture, choice: Choice) -> int | None:
    """Return the driver that must stay because else nobody would take new tasks."""
    if picture.keepers or len(choice.leavers) < len(picture.candidates):
        return None
    return next(
        (
            index
            for index in reversed(choice.leavers)
            if picture.candidates[index].busyness is Busyness.PINNED
        ),
        None,
    )


def _held_for_memory(picture: Picture, choice: Choice, held: list[int]) -> str:
    """Say how many keys, bytes and workers wait for what."""
    names = tuple(name for index in held for name in picture.candidates[index].workers)
    gone, all_gone = set(choice.leavers), {*choice.leavers, *held}
    keys = sum(picture.keys[index] for index in held)
    nbytes = sum(picture.candidates[index].own_bytes for index in held)
    for one in picture.shared:
        if one.holders <= all_gone and not one.holders <= gone:
            keys += one.keys
            nbytes += one.nbytes
    return (
        f"{keys} key(s) with {format_bytes(nbytes)} on {_named(names)} have no room "
        "elsewhere; they leave once these are released or others have room"
    )


def _named(names: tuple[str, ...]) -> str:
    """Name some workers.

    Examples
    --------
    >>> _named(("3",)), _named(("3", "4")), _named(tuple("abcdefghi"))
    ('worker 3', 'workers 3, 4', '9 workers')
    """
    if len(names) > NAMED:
        return f"{len(names)} workers"
    return f"worker{'s' if len(names) > 1 else ''} {', '.join(names)}"
