"""What the shell is told to do, in the imperative: one call each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Start:
    """Ask the resource manager for these instances, in one call.

    Answered by ``Accepted`` and ``Refused``, each instance by one of them.
    """

    tokens: tuple[str, ...]
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskRanking:
    """Ask which workers should leave to get down to ``target`` workers.

    Answered by ``Ranked`` or ``RankFailed``.
    """

    target: int
    surplus: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Let the scheduler drain and retire these instances.

    Answered by ``Retired`` or ``Kept`` for each.
    """

    tokens: tuple[str, ...]
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recall:
    """Take a drain back. Answered by ``Recalled`` for those that work again."""

    tokens: tuple[str, ...]
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let the resource manager drop these instances; gone already is no error.

    Answered by ``Released`` or ``ReleaseFailed`` for each.
    """

    tokens: tuple[str, ...]
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnAway:
    """Let the scheduler send away workers whose instance is over."""

    workers: tuple[str, ...]


Command = Start | AskRanking | Drain | Recall | Release | TurnAway
