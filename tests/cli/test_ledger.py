"""The accounts of a run."""

from dask_fleet.cli.ledger import Ledger


def test_nothing_seen() -> None:
    ledger = Ledger()
    assert (ledger.peak, ledger.worker_seconds, ledger.seconds) == (0, 0.0, 0.0)


def test_events_are_counted_once() -> None:
    ledger = Ledger()
    ledger.count(())
    ledger.count(("a", "b"))
    ledger.count(("a", "b"))
    ledger.count(("a", "b", "c"))
    assert ledger.decisions == 3


def test_events_that_went_from_the_front_do_not_count_again() -> None:
    ledger = Ledger()
    ledger.count(("a", "b", "c"))
    ledger.count(("c", "d", "e"))
    assert ledger.decisions == 5
