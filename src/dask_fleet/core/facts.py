"""What became of commands and of instances, in the past tense."""

from __future__ import annotations

from dataclasses import dataclass

from dask_fleet.core.endings import Ending


@dataclass(frozen=True, slots=True)
class Accepted:
    """The resource manager accepted these instances."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The resource manager refused these instances, or was not reached."""

    tokens: tuple[str, ...]
    ending: Ending


@dataclass(frozen=True, slots=True)
class Ranked:
    """The workers that should leave to get to ``target``, cheapest first.

    ``detail`` says why there are fewer than asked for, if there are.
    """

    target: int
    workers: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RankFailed:
    """Nobody could say which workers should leave."""

    detail: str


@dataclass(frozen=True, slots=True)
class Retired:
    """The scheduler drained and retired these instances."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """The scheduler refused to let these instances go; they work on."""

    tokens: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class Recalled:
    """These instances were draining and work again."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecallRefused:
    """These instances had gone too far to be taken back; they still leave."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """The resource manager took note that these instances should go."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleaseFailed:
    """The resource manager could not be told to drop these instances."""

    tokens: tuple[str, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The scheduler was told to send these workers away."""

    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """The resource manager says that this instance is no more."""

    token: str
    ending: Ending


Fact = (
    Accepted
    | Refused
    | Ranked
    | RankFailed
    | Retired
    | Kept
    | Recalled
    | RecallRefused
    | Released
    | ReleaseFailed
    | TurnedAway
    | Ended
)
