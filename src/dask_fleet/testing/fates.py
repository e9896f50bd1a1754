"""What may become of a start, and how a simulated world behaves in general."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Fate(str, Enum):
    """What becomes of one instance that is asked for."""

    #: Accepted, and all its workers come.
    COMES = "comes"
    #: Accepted, and comes twenty times later than others.
    SLOW = "slow"
    #: Comes before the answer to its start is there.
    EARLY = "early"
    #: Refused: the quota is used up.
    QUOTA = "quota"
    #: Refused for another reason.
    REJECTED = "rejected"
    #: The call fails, and the instance comes all the same.
    UNANSWERED = "unanswered"
    #: Accepted, and never heard of again.
    VANISHES = "vanishes"
    #: Accepted, and ends before a worker of it has come.
    DIES_BEFORE = "dies before arrival"
    #: Comes, and ends 0.1 s later.
    DIES_AT_BIRTH = "dies at birth"
    #: Comes, disappears 0.1 s later, and nobody tells.
    LOST_AT_BIRTH = "lost at birth"
    #: All its workers come but for the last.
    PARTIAL = "partial"

    def __str__(self) -> str:
        return self.value


#: Fates of which no worker can come out that lives.
HOPELESS = frozenset(
    {
        Fate.QUOTA,
        Fate.REJECTED,
        Fate.VANISHES,
        Fate.DIES_BEFORE,
        Fate.DIES_AT_BIRTH,
        Fate.LOST_AT_BIRTH,
    }
)

#: A shortest and a longest time, in seconds; each single time is drawn between them.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Habits:
    """How a simulated world behaves when it is not told otherwise.

    Times are in seconds; odds are between 0 and 1.

    Parameters
    ----------
    accept
        From asking for instances to the answer.
    arrive
        From the answer to the arrival of a worker.
    tell
        From the end of an instance to the resource manager's word of it.
    rank, retire, recall, release, turn_away
        From a command to its answer.
    fates
        The odds of what becomes of a start; what is left of 1 is ``Fate.COMES``.
    refuse_retirement, fail_ranking, fail_release
        The odds that such a call fails.
    tells_endings
        Whether the resource manager says that an instance ended.
    closes_retired
        Whether a retired worker leaves by itself, before it is released.
    ranks_all
        A ranking names all workers that may leave, not only as many as have to.
    scattered
        Each instance of a command gets its answer for itself, at its own time.
    repeats
        The odds that an answer is given twice.
    """

    accept: Span = (0.1, 0.1)
    arrive: Span = (0.5, 0.5)
    tell: Span = (0.05, 0.05)
    rank: Span = (0.02, 0.02)
    retire: Span = (0.1, 0.1)
    recall: Span = (0.02, 0.02)
    release: Span = (0.1, 0.1)
    turn_away: Span = (0.02, 0.02)
    fates: Mapping[Fate, float] = field(default_factory=dict)
    refuse_retirement: float = 0.0
    fail_ranking: float = 0.0
    fail_release: float = 0.0
    tells_endings: bool = True
    closes_retired: bool = False
    ranks_all: bool = True
    scattered: bool = False
    repeats: float = 0.0


#: Everything takes its own time, in any order, and some answers come twice.
UNRULY = Habits(
    accept=(0.0, 2.0),
    arrive=(0.0, 5.0),
    tell=(0.0, 3.0),
    rank=(0.0, 1.5),
    retire=(0.0, 4.0),
    recall=(0.0, 1.0),
    release=(0.0, 2.0),
    scattered=True,
    repeats=0.1,
)
