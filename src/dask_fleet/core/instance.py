"""An instance: what the resource manager starts and stops as one thing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from dask_fleet.core.states import MOVES, IllegalMove, State

#: How many steps of its story an instance remembers: a full life with a few detours.
STORY_LENGTH = 12


class Takeback(str, Enum):
    """Whether a drain was to be taken back."""

    NOT_ASKED = "not asked"
    ASKED = "asked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an instance's story.

    Parameters
    ----------
    at
        When, in seconds of the snapshot's clock.
    state
        The state that began then.
    why
        A few words; empty when the state says it all.
    """

    at: float
    state: State
    why: str = ""

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.state}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True, slots=True)
class Instance:
    """One process, batch job or pod, with the worker or workers it holds.

    Parameters
    ----------
    token
        Its name, never given to a second one.
    workers
        The names its workers have or will have; at least one.
    serial
        Counts instances of one fleet in the order they were planned; newest is highest.
    round
        The batch of starts it belongs to. Failures of one batch are one strike.
    state, since
        The present state and when it began (seconds).
    asked_at
        When the command that leads out of this state was given; ``None`` if none is
        under way. While it is set no second command is given for this instance.
    seen_at
        When a worker of it was first seen by the scheduler; ``None`` before.
    whole
        All its workers have been with the scheduler at the same time.
    missing_since
        Since when some of its workers, though not all, are not with the scheduler;
        ``None`` if none is missing.
    tries
        How often the resource manager was told to drop it.
    released
        The resource manager took note of the last of these.
    takeback
        Whether its drain was to be taken back: not asked, asked, or refused.
    warned
        The user was told that it is late.
    story
        The last steps of its life, oldest first.
    """

    token: str
    workers: tuple[str, ...]
    serial: int
    round: int
    state: State
    since: float
    asked_at: float | None = None
    seen_at: float | None = None
    whole: bool = False
    missing_since: float | None = None
    tries: int = 0
    released: bool = False
    takeback: Takeback = Takeback.NOT_ASKED
    warned: bool = False
    story: tuple[Step, ...] = ()

    @property
    def size(self) -> int:
        """How many workers it holds."""
        return len(self.workers)

    def is_infant(self, at: float, infancy: float) -> bool:
        """Whether it had arrived less than ``infancy`` seconds before ``at``."""
        return self.seen_at is not None and at < self.seen_at + infancy

    def moved(self, goal: State, at: float, why: str = "") -> Instance:
        """Return this instance in another state.

        Parameters
        ----------
        goal
            The state to go to.
        at
            Now, in seconds.
        why
            A few words for the story.

        Raises
        ------
        IllegalMove
            If the table of states has no such move; nothing has changed then.

        Examples
        --------
        >>> one = Instance("3", ("3",), 3, 1, State.PLANNED, 0.0)
        >>> one.moved(State.REQUESTED, 1.0).state
        <State.REQUESTED: 'requested'>
        >>> one.moved(State.LOST, 1.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        dask_fleet.core.states.IllegalMove: '3' cannot go from planned to lost; ...
        """
        if goal not in MOVES[self.state]:
            told = "; ".join(map(str, self.story))
            raise IllegalMove(self.token, self.state, goal, told)
        return replace(
            self,
            state=goal,
            since=at,
            asked_at=None,
            takeback=Takeback.NOT_ASKED,
            warned=False,
            missing_since=None,
            story=(*self.story, Step(at, goal, why))[-STORY_LENGTH:],
        )
