"""The life of an instance: its states and the moves between them.

Everything that may happen to an instance stands in one table. A move that is not in
it raises :class:`IllegalMove` with the story of that instance and changes nothing.
"""

from __future__ import annotations

from enum import Enum


class State(str, Enum):
    """Where an instance is in its life.

    Examples
    --------
    >>> State("arrived") is State.ARRIVED
    True
    >>> print(State.DRAINING)
    draining
    """

    #: In the plan; the resource manager has not accepted it yet.
    PLANNED = "planned"
    #: Accepted by the resource manager; none of its workers has been seen.
    REQUESTED = "requested"
    #: At least one of its workers is with the scheduler, as far as known.
    ARRIVED = "arrived"
    #: The scheduler gives it no new task and moves its results away.
    DRAINING = "draining"
    #: The resource manager was told to drop it.
    LEAVING = "leaving"
    #: It could not be started; the resource manager still has to clean up.
    FAILED = "failed"
    #: It was with the scheduler and has disappeared; it may come back for a while.
    LOST = "lost"
    #: Over. The token is never used again.
    GONE = "gone"

    def __str__(self) -> str:
        return self.value

    # Enum's own runs in Python, once for each look into a table; members are equal to
    # their values, so this is the right one as well.
    __hash__ = str.__hash__


#: From each state, the states that may follow. This is the whole life of an instance.
#: One that drains is not called lost when the scheduler does not see it any more: that
#: is what draining leads to, and the answer to the drain is owed anyhow.
MOVES: dict[State, frozenset[State]] = {
    State.PLANNED: frozenset({State.REQUESTED, State.FAILED, State.GONE}),
    State.REQUESTED: frozenset(
        {State.ARRIVED, State.LEAVING, State.FAILED, State.GONE}
    ),
    State.ARRIVED: frozenset({State.DRAINING, State.LEAVING, State.LOST, State.GONE}),
    State.DRAINING: frozenset({State.ARRIVED, State.LEAVING, State.GONE}),
    State.LEAVING: frozenset({State.GONE}),
    State.FAILED: frozenset({State.LEAVING, State.GONE}),
    State.LOST: frozenset({State.ARRIVED, State.LEAVING, State.GONE}),
    State.GONE: frozenset(),
}

#: States in which an instance counts towards the target. Those that drain or leave
#: count neither as supply nor as surplus; a lost one is given time to come back.
PRESENT = frozenset({State.PLANNED, State.REQUESTED, State.ARRIVED, State.LOST})

#: States in which the resource manager has said yes and was not yet told to drop it.
REQUESTED_STATES = frozenset(
    {State.REQUESTED, State.ARRIVED, State.DRAINING, State.LOST}
)


class IllegalMove(RuntimeError):
    """A move that the table of states does not have.

    Parameters
    ----------
    token
        The instance that should have moved.
    source, goal
        The states from and to.
    story
        What happened to that instance so far, one line a step.
    """

    def __init__(self, token: str, source: State, goal: State, story: str) -> None:
        super().__init__(
            f"{token!r} cannot go from {source} to {goal}; its story: {story}"
        )
        self.token = token
        self.source = source
        self.goal = goal
