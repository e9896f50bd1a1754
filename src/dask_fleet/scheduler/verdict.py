"""From a choice to an answer: what fits into memory leaves, the rest is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dask.utils import format_bytes

from dask_fleet.scheduler.rank import Board, Busyness, Choice, choose
from dask_fleet.scheduler.survey import Picture, Room

#: How many workers are named in a sentence.
NAMED = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who should leave, and who is held back.

    Parameters
    ----------
    leavers
        Positions of candidates, cheapest first.
    held
        Positions of those whose results find no room elsewhere.
    driver
        Position of one that must stay because else nobody would take the tasks that it
        may wait for; ``None`` if there is none.
    """

    leavers: tuple[int, ...]
    held: tuple[int, ...] = ()
    driver: int | None = None


def judge(picture: Picture, surplus: int, *, gentle: bool = True) -> Verdict:
    """Choose who leaves; hold back those whose results would not fit elsewhere.

    Parameters
    ----------
    picture
        The state it is made from.
    surplus
        Workers that should leave.
    gentle
        Hold back those whose results find no room, and a driver, whose own tasks need
        workers, as the last one. Otherwise whoever is chosen leaves.
    """
    choice = choose(picture.candidates, picture.shared, surplus)
    if not gentle:
        return Verdict(tuple(choice.leavers))
    held = _without_room(picture, choice)
    driver = _last_driver(picture, choice)
    leavers = tuple(index for index in choice.leavers if index != driver)
    return Verdict(leavers, tuple(held), driver)


def names_of(picture: Picture, indices: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the workers of some candidates."""
    return tuple([name for i in indices for name in picture.candidates[i].workers])


def why_not_more(
    picture: Picture,
    verdict: Verdict,
    surplus: int,
    kept: Mapping[str, int],
    keys: int,
    nbytes: int,
) -> str:
    """Say why fewer leave than should; empty if as many do.

    Parameters
    ----------
    picture, verdict
        The state, and what followed from it.
    surplus
        Workers that should leave.
    kept
        How many workers may not leave at all, by the reason.
    keys, nbytes
        Results that those who are held have alone.
    """
    reasons = []
    if verdict.held:
        who = _named(names_of(picture, verdict.held))
        reasons.append(
            f"{keys} key(s) with {format_bytes(nbytes)} on {who} have no room "
            "elsewhere; they leave once these are released or others have room"
        )
    if verdict.driver is not None:
        who = _named(picture.candidates[verdict.driver].workers)
        reasons.append(
            f"a task that may wait for others runs on {who}, and nobody else would work"
        )
    if len(names_of(picture, verdict.leavers)) < surplus:
        reasons += [f"{count} cannot leave: {why}" for why, count in kept.items()]
    return "; ".join(reasons)


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
