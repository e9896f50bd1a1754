"""The accounts of a run."""

from dask_fleet.cli.ledger import Ledger
from dask_fleet.core import Cause
from dask_fleet.core.events import Event


def event(cause: Cause) -> Event:
    return Event(0.0, cause, 0, 1, (), Cause.SCALED, "because")


A, B, C, D = map(
    event, (Cause.STARTING, Cause.WITHDRAWN, Cause.DRAINING, Cause.RECALLED)
)


def test_nothing_seen() -> None:
    ledger = Ledger()
    assert (ledger.peak, ledger.worker_seconds, ledger.seconds) == (0, 0.0, 0.0)


def test_decisions_are_counted_once() -> None:
    ledger = Ledger()
    ledger.count(())
    ledger.count((A, B))
    ledger.count((A, B))
    ledger.count((A, B, C))
    assert ledger.decisions == 3


def test_events_that_went_from_the_front_do_not_count_again() -> None:
    ledger = Ledger()
    ledger.count((A, B))
    ledger.count((B, C, D))
    assert ledger.decisions == 4


def test_what_happened_by_itself_is_no_decision() -> None:
    ledger = Ledger()
    ledger.count((A, event(Cause.ARRIVED), event(Cause.CALM), event(Cause.DIED)))
    assert ledger.decisions == 1
