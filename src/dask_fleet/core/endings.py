"""How an instance ended, by class: what follows depends on the class alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EndingKind(str, Enum):
    """The class of an ending."""

    #: Refused because a limit of the site is reached; passes by itself.
    QUOTA = "refused by quota"
    #: Refused for another reason.
    REJECTED = "rejected"
    #: Accepted, and gone or overdue before a worker arrived.
    VANISHED = "vanished before arrival"
    #: It reached an end that was known beforehand (walltime, lifetime, preemption).
    EXPIRED = "expired"
    #: It broke.
    CRASHED = "crashed"
    #: It cannot work: trying again changes nothing.
    MISTAKE = "mistake"
    #: Somebody asked for it.
    ASKED = "asked for"

    def __str__(self) -> str:
        return self.value


#: Endings of starts that were not even accepted.
REFUSALS = frozenset({EndingKind.QUOTA, EndingKind.REJECTED})

#: Endings that say nothing bad about the next start.
NORMAL = frozenset({EndingKind.EXPIRED, EndingKind.ASKED})


@dataclass(frozen=True, slots=True)
class Ending:
    """What the resource manager says about an instance that is no more.

    Parameters
    ----------
    kind
        Its class.
    detail
        The resource manager's own words: exit code, last lines of stderr.

    Examples
    --------
    >>> print(Ending(EndingKind.CRASHED, "exit code -9"))
    crashed: exit code -9
    """

    kind: EndingKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"
