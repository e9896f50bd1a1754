"""When a signal is passed on, and when it ends the command hard."""

import signal

from dask_fleet.cli.signals import HARD_WITHIN, SAME_WITHIN, Presses, Verdict


def test_second_interrupt_is_hard() -> None:
    presses = Presses()
    assert presses.judge(signal.SIGINT, 5.0) is Verdict.PASS
    assert presses.judge(signal.SIGINT, 5.0 + HARD_WITHIN - 0.1) is Verdict.KILL


def test_late_second_interrupt_is_a_first_one() -> None:
    presses = Presses()
    presses.judge(signal.SIGINT, 5.0)
    assert presses.judge(signal.SIGINT, 5.0 + HARD_WITHIN) is Verdict.PASS


def test_one_signal_by_two_roads_counts_once() -> None:
    presses = Presses()
    assert presses.judge(signal.SIGTERM, 5.0) is Verdict.PASS
    assert presses.judge(signal.SIGTERM, 5.0 + SAME_WITHIN / 2) is Verdict.SAME
    assert presses.judge(signal.SIGTERM, 6.0) is Verdict.PASS


def test_signals_do_not_mix() -> None:
    presses = Presses()
    presses.judge(signal.SIGTERM, 5.0)
    assert presses.judge(signal.SIGINT, 5.1) is Verdict.PASS


def test_hint_as_long_as_it_is_true() -> None:
    presses = Presses()
    assert presses.hint(5.0) == ""
    presses.judge(signal.SIGINT, 5.0)
    assert "Ctrl-C again" in presses.hint(5.0 + HARD_WITHIN - 0.1)
    assert presses.hint(5.0 + HARD_WITHIN) == ""
