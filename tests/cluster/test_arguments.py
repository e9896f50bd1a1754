"""What users pass in is checked where they call, and a mistake changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_fleet.cluster.arguments import (
    amount,
    byte_count,
    described,
    flag,
    function,
    ordered,
    seconds,
    worker_bound,
    worker_count,
)
from tests.cluster.support import fake, run

NO_COUNT = [-1, 2.5, "x", "3", True, False, None, math.nan, math.inf, [], 1j, b"1"]
NO_AMOUNT = [-1, -0.5, "x", "3", True, None, math.nan, math.inf, [], 1j]
NO_BYTES = ["5 parsecs", "", "-1 GiB", -1, True, None, math.nan, math.inf, [], b"1"]
NO_TIME = ["5 parsecs", "", "-1 s", -1, True, None, math.nan, math.inf, [], "nan s"]


# -- the checks ------------------------------------------------------------------------


@pytest.mark.parametrize("value", NO_COUNT)
def test_no_number_of_workers(value: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        worker_count("n", value)
    assert str(caught.value).startswith("n must be a whole number of workers")
    assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize("value", [0, 3, 3.0])
def test_a_number_of_workers(value: object) -> None:
    count = worker_count("n", value)
    assert count == value
    assert type(count) is int


@given(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none()))
def test_a_number_of_workers_is_given_back_unchanged_or_refused(value: Any) -> None:
    try:
        assert worker_count("n", value) == value >= 0
    except (TypeError, ValueError) as error:
        assert repr(value) in str(error)  # noqa: PT017  # either of the two is right


def test_the_lowest_number_is_said() -> None:
    with pytest.raises(ValueError, match="at least 1; got 0"):
        worker_count("n_workers", 0, lowest=1)


@pytest.mark.parametrize("value", [one for one in NO_COUNT if one != math.inf])
def test_no_bound(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="maximum must be a whole number"):
        worker_bound("maximum", value)


@pytest.mark.parametrize("value", NO_AMOUNT)
def test_no_amount(value: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        amount("cores", value)
    assert str(caught.value).startswith("cores must be a number, finite and at least 0")
    assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize("value", NO_BYTES)
def test_no_memory(value: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        byte_count("memory", value)
    assert str(caught.value).startswith("memory must be a number of bytes or like")
    assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize(
    ("value", "count"),
    [("16 GiB", 16 * 2**30), ("1kB", 1000), (1024, 1024), (1e3, 1000), (0, 0)],
)
def test_memory(value: object, count: int) -> None:
    assert byte_count("memory", value) == count


@pytest.mark.parametrize("value", [*NO_TIME, 0, "0 s"])
def test_no_time(value: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        seconds("interval", value)
    assert str(caught.value).startswith("interval must be a finite time above 0")
    assert str(caught.value).endswith(f"got {value!r}")


@pytest.mark.parametrize(
    ("value", "time"),
    [("500 ms", 0.5), (2, 2.0), (0.25, 0.25), (timedelta(minutes=1), 60.0)],
)
def test_time(value: object, time: float) -> None:
    assert seconds("interval", value) == time


def test_no_time_at_all_where_that_makes_sense() -> None:
    assert seconds("drain_timeout", 0, positive=False) == 0


def test_bounds_function_and_flag() -> None:
    ordered(2, 2)
    with pytest.raises(ValueError, match="minimum=5 and maximum=2"):
        ordered(5, 2)
    assert function("target", len) is len
    with pytest.raises(TypeError, match="target must be a function; got 3"):
        function("target", 3)
    assert flag("force", True) is True
    with pytest.raises(TypeError, match="force must be True or False; got 1"):
        flag("force", 1)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(2, "no such file"), "[Errno 2] no such file"),
        (ValueError("two\n  lines"), "two lines"),
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError()"),
    ],
)
def test_an_error_in_one_line(error: Exception, words: str) -> None:
    assert described(error) == words


# -- in a cluster: an error in the caller, and nothing has changed ---------------------

Call = Callable[[Any], Any]

BAD: list[tuple[Call, str]] = [
    (lambda c: c.scale(-1), "n must be .* got -1"),
    (lambda c: c.scale(2.5), r"n must be .* got 2\.5"),
    (lambda c: c.scale("x"), "n must be .* got 'x'"),
    (lambda c: c.scale(True), "n must be .* got True"),
    (lambda c: c.scale(math.nan), "n must be .* got nan"),
    (lambda c: c.scale(math.inf), "n must be .* got inf"),
    (lambda c: c.scale(), "scale needs a number of workers"),
    (lambda c: c.scale(None), "scale needs a number of workers"),
    (lambda c: c.scale(3, memory="5 parsecs"), "memory must be .* got '5 parsecs'"),
    (lambda c: c.scale(memory="5 parsecs"), "memory must be .* got '5 parsecs'"),
    (lambda c: c.scale(cores=-1), "cores must be .* got -1"),
    (lambda c: c.scale(cores=math.nan), "cores must be .* got nan"),
    (lambda c: c.scale(memory="1 GiB"), "memory cannot be used here"),
    (lambda c: c.scale(workers=3), "workers"),
    (lambda c: c.scale(3, drain_timeout=-1), "drain_timeout must be .* got -1"),
    (lambda c: c.scale(3, drain_timeout="soon"), "drain_timeout must be .* got 'soon'"),
    (lambda c: c.scale(3, force="yes"), "force must be .* got 'yes'"),
    (lambda c: c.adapt(minimum=5, maximum=2), "minimum=5 and maximum=2"),
    (lambda c: c.adapt(minimum=-1), "minimum must be .* got -1"),
    (lambda c: c.adapt(minimum=1.5), r"minimum must be .* got 1\.5"),
    (lambda c: c.adapt(maximum=-1), "maximum must be .* got -1"),
    (lambda c: c.adapt(maximum="many"), "maximum must be .* got 'many'"),
    (lambda c: c.adapt(maximum=math.nan), "maximum must be .* got nan"),
    (lambda c: c.adapt(minimum_cores=-1), "minimum_cores must be .* got -1"),
    (lambda c: c.adapt(maximum_cores="x"), "maximum_cores must be .* got 'x'"),
    (lambda c: c.adapt(maximum_cores=0.5), "maximum_cores must allow at least one"),
    (lambda c: c.adapt(minimum_memory="x"), "minimum_memory must be .* got 'x'"),
    (lambda c: c.adapt(maximum_memory="1 GiB"), "maximum_memory cannot be used here"),
    (lambda c: c.adapt(minimum_cores=4, maximum=2), "minimum=4 and maximum=2"),
    (lambda c: c.adapt(interval=-1), "interval must be .* got -1"),
    (lambda c: c.adapt(interval=0), "interval must be .* got 0"),
    (lambda c: c.adapt(interval=math.inf), "interval must be .* got inf"),
    (lambda c: c.adapt(interval=math.nan), "interval must be .* got nan"),
    (lambda c: c.adapt(interval="soon"), "interval must be .* got 'soon'"),
    (lambda c: c.adapt(target_duration=-1), "target_duration must be .* got -1"),
    (lambda c: c.adapt(wait_count=-1), "wait_count must be .* got -1"),
    (lambda c: c.adapt(wait_count=1.5), r"wait_count must be .* got 1\.5"),
    (lambda c: c.adapt(target=3), "target must be a function; got 3"),
    (lambda c: c.adapt(worker_key="host"), "worker_key must be a function; got 'host'"),
    (lambda c: c.adapt(Adaptive=object), "Adaptive"),
    (lambda c: c.adapt(3), "positional"),
    (lambda c: c.recommendations(-1), "target must be .* got -1"),
    (lambda c: c.recommendations("x"), "target must be .* got 'x'"),
    (lambda c: c.wait_for_workers(0), "n_workers must be .* at least 1; got 0"),
    (lambda c: c.wait_for_workers(-1, exactly=True), "n_workers must be .* got -1"),
    (lambda c: c.wait_for_workers(2.5), r"n_workers must be .* got 2\.5"),
    (lambda c: c.wait_for_workers(exactly=True), "exactly=True needs a number"),
    (lambda c: c.wait_for_workers(1, timeout=-1), "timeout must be .* got -1"),
    (lambda c: c.wait_for_workers(1, timeout="soon"), "timeout must be .* got 'soon'"),
    (lambda c: c.close(timeout=-1), "timeout must be .* got -1"),
    (lambda c: c.close(timeout=math.nan), "timeout must be .* got nan"),
]


@pytest.mark.integration
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_wrong_argument_is_refused_and_nothing_has_changed(adaptive: bool) -> None:
    async def main() -> None:
        async with fake(n_workers=1) as cluster:
            handle = None
            if adaptive:
                handle = cluster.adapt(
                    minimum=1, maximum=2, target=lambda: 1, interval=60
                )
            before = _figures(cluster)
            for call, words in BAD:
                with pytest.raises((TypeError, ValueError), match=words):
                    call(cluster)
                assert _figures(cluster) == before, words
            if handle is not None:
                assert handle.state == "running"

    run(main())


def _figures(cluster: Any) -> tuple[object, ...]:
    control = cluster._control
    return (
        cluster.target,
        cluster.mode,
        cluster.plan,
        cluster.status,
        control.fleet.limits,
        control.handle,
        control.side.how,
        [one.sentence for one in cluster.events],
    )


@pytest.mark.integration
@pytest.mark.parametrize("value", [-1, 2.5, True, "x", math.nan])
def test_a_wrong_argument_of_the_constructor(value: object) -> None:
    async def main() -> None:
        with pytest.raises(
            (TypeError, ValueError), match="n_workers must be"
        ) as caught:
            async with fake(n_workers=value):
                pass
        assert str(caught.value).endswith(f"got {value!r}")

    run(main())
