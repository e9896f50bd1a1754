"""What a view is given: frozen records, filled by whoever has a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a cluster can be reached.

    Parameters
    ----------
    scheduler
        Address of the scheduler.
    dashboard
        Link to the dashboard; empty if there is none.
    """

    scheduler: str
    dashboard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """How many tasks the scheduler knows, by what they are doing.

    Parameters
    ----------
    waiting
        Not started: something they need is missing, or a free thread.
    running
        With a worker that has a thread for them.
    done
        Finished since the cluster was started.
    failed
        Ended with an error since the cluster was started.
    """

    waiting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A cluster at one moment.

    Parameters
    ----------
    mode
        ``"manual"`` or ``"adaptive"``.
    target, plan, requested, observed
        Workers: how many there should be, are planned, were accepted by the resource
        manager, are seen by the scheduler.
    minimum, maximum
        Bounds of adaptive scaling; ``None`` where there is none.
    health
        ``"ok"``, ``"degraded"`` or ``"failed"``.
    sentence
        Why it is as it is; possibly empty.
    tasks
        Task counts; ``None`` if they are not known.
    """

    mode: str = "manual"
    target: int = 0
    plan: int = 0
    requested: int = 0
    observed: int = 0
    minimum: int | None = None
    maximum: int | None = None
    health: str = "ok"
    sentence: str = ""
    tasks: Tasks | None = None

    @property
    def scaling(self) -> str:
        """The mode, with the bounds if it is adaptive: ``"adaptive 0:4"``."""
        if self.mode != "adaptive":
            return self.mode
        low = "" if self.minimum is None else self.minimum
        high = "" if self.maximum is None else self.maximum
        return f"adaptive {low}:{high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run came to.

    Parameters
    ----------
    outcome
        How it ended, in a few words: ``"exit code 0"``.
    seconds
        How long it took.
    peak
        The largest number of workers seen at a time.
    worker_seconds
        Number of workers, summed up over the time.
    decisions
        How many decisions were recorded.
    """

    outcome: str
    seconds: float
    peak: int
    worker_seconds: float
    decisions: int
