"""An instance: what the resource manager starts and stops as one thing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from dask_fleet.core.states import MOVES, PRESENT, IllegalMove, State

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def record(cls: type[T]) -> type[T]:  # noqa: D103
        ...

else:
    #: Frozen for the type checker, who finds each assignment, and plain at run time: a
    #: frozen dataclass takes 2.5 µs to build and a plain one 1.1 µs, and one decision
    #: may build a hundred thousand.
    record = dataclass(slots=True)

#: How much of its story an instance remembers: a full life with a few detours.
_STORY_LENGTH = 12 * 3

#: One step of a story: when (seconds), the value of the state that began then, and a
#: few words that are empty when the state says it all.
Step = tuple[float, str, str]

#: Steps, oldest first, one after the other in one flat tuple.
Story = tuple[float | str, ...]


class Takeback(str, Enum):
    """Whether a drain was to be taken back."""

    NOT_ASKED = "not asked"
    ASKED = "asked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is not as usual with an instance.

    Parameters
    ----------
    missing_since
        Since when some of its workers, though not all, are not with the scheduler;
        ``None`` if none is missing.
    partial
        They have never all been there.
    broken
        Some of its workers were missing for too long. It works on until others do its
        work, and does not count as present.
    kept_at
        When the scheduler last refused to let it go; ``None`` if it never did.
    takeback
        Whether its drain was to be taken back: not asked, asked, or refused.
    unreleased
        The resource manager could not be told to drop it, the last time.
    warned
        The user was told that it is late.
    """

    missing_since: float | None = None
    partial: bool = False
    broken: bool = False
    kept_at: float | None = None
    takeback: Takeback = Takeback.NOT_ASKED
    unreleased: bool = False
    warned: bool = False

    def after_move(self) -> Trouble:
        """Return what is left of it in the next state."""
        return _shared(
            replace(self, takeback=Takeback.NOT_ASKED, unreleased=False, warned=False)
        )


#: All is well; compare by identity.
NO_TROUBLE = Trouble()


def _shared(trouble: Trouble) -> Trouble:
    return NO_TROUBLE if trouble == NO_TROUBLE else trouble


@record
class Instance:
    """One process, batch job or pod, with the worker or workers it holds.

    Never changed once it is built: a move makes a new one. What is rare is kept apart
    in ``trouble``, so that the common instance is small and quickly built.

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
        When the command was given whose answer is out; ``None`` if none is. While it is
        set no second command is given for this instance, but for taking a drain back
        and for the release of what is lost or closed.
    seen_at
        When a worker of it was first seen by the scheduler; ``None`` before.
    tries
        How often the resource manager was told to drop it.
    trouble
        What is not as usual; ``NO_TROUBLE`` itself if nothing is.
    story
        The last steps of its life; see :attr:`steps`.
    """

    token: str
    workers: tuple[str, ...]
    serial: int
    round: int
    state: State
    since: float
    asked_at: float | None = None
    seen_at: float | None = None
    tries: int = 0
    trouble: Trouble = NO_TROUBLE
    story: Story = ()

    @property
    def size(self) -> int:
        """How many workers it holds."""
        return len(self.workers)

    @property
    def is_present(self) -> bool:
        """Whether it counts towards the target."""
        if self.state is State.DRAINING:
            return self.trouble.takeback is Takeback.ASKED
        return self.state in PRESENT and not self.trouble.broken

    @property
    def missing_since(self) -> float | None:
        """Since when some of its workers, though not all, are missing."""
        return self.trouble.missing_since

    @property
    def is_troubled(self) -> bool:
        """Whether anything is not as usual with it."""
        return self.trouble is not NO_TROUBLE

    @property
    def is_released(self) -> bool:
        """Whether the resource manager took note that it should go."""
        return self.tries > 0 and self.asked_at is None and not self.trouble.unreleased

    def is_infant(self, at: float, infancy: float) -> bool:
        """Whether it had arrived less than ``infancy`` seconds before ``at``."""
        return self.seen_at is not None and at < self.seen_at + infancy

    @property
    def steps(self) -> list[Step]:
        """Its story, step by step."""
        story = self.story
        return list(zip(story[::3], story[1::3], story[2::3], strict=True))  # type: ignore[arg-type]

    def told(self) -> str:
        """Return its story in words."""
        return "; ".join(
            f"{at:.3f} {state}" + (f" ({why})" if why else "")
            for at, state, why in self.steps
        )

    def but(
        self,
        *,
        asked_at: float | None,
        tries: int | None = None,
        trouble: Trouble | None = None,
    ) -> Instance:
        """Return a copy in the same state, with another command or answer noted."""
        return Instance(
            self.token,
            self.workers,
            self.serial,
            self.round,
            self.state,
            self.since,
            asked_at,
            self.seen_at,
            self.tries if tries is None else tries,
            self.trouble if trouble is None else trouble,
            self.story,
        )

    def troubled(self, **changes: Any) -> Instance:
        """Return a copy with another trouble, or with none."""
        trouble = _shared(replace(self.trouble, **changes))
        return self.but(asked_at=self.asked_at, trouble=trouble)

    def moved(
        self,
        goal: State,
        at: float,
        why: str = "",
        *,
        asked_at: float | None = None,
        tries: int = 0,
    ) -> Instance:
        """Return this instance in another state.

        Parameters
        ----------
        goal
            The state to go to.
        at
            Now, in seconds.
        why
            A few words for the story.
        asked_at
            When the command was given whose answer is out then, if one is.
        tries
            How often the resource manager was told to drop it, with the move.

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
            raise IllegalMove(self.token, self.state, goal, self.told())
        trouble = self.trouble
        if trouble is not NO_TROUBLE:
            trouble = trouble.after_move()
        return Instance(
            self.token,
            self.workers,
            self.serial,
            self.round,
            goal,
            at,
            asked_at,
            self.seen_at,
            tries,
            trouble,
            _continued(self.story, at, goal, why),
        )

    def came(self, at: float, *, whole: bool) -> Instance:
        """Return this instance with the scheduler, for the first time or again.

        Parameters
        ----------
        at
            Now, in seconds.
        whole
            All of its workers are there.
        """
        if State.ARRIVED not in MOVES[self.state]:
            raise IllegalMove(self.token, self.state, State.ARRIVED, self.told())
        trouble = NO_TROUBLE
        if not whole:
            partial = self.seen_at is None or self.trouble.partial
            trouble = Trouble(missing_since=at, partial=partial)
        return Instance(
            self.token,
            self.workers,
            self.serial,
            self.round,
            State.ARRIVED,
            at,
            self.asked_at,
            at if self.seen_at is None else self.seen_at,
            0,
            trouble,
            _continued(self.story, at, State.ARRIVED, ""),
        )


# Instances that were planned together and move together share one story: that is less
# to build and less for the garbage collector to look at.
@lru_cache(maxsize=256)
def _continued(story: Story, at: float, state: State, why: str) -> Story:
    story = (*story, at, state.value, why)
    return story if len(story) <= _STORY_LENGTH else story[-_STORY_LENGTH:]
