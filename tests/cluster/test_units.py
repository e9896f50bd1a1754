from __future__ import annotations

import math

import pytest

from dask_fleet.cluster.units import lower_bound, upper_bound, workers_for

GIB = 2**30


def needed(
    n: object = None,
    cores: object = None,
    memory: object = None,
    threads_each: int | None = 4,
    bytes_each: int | None = 2 * GIB,
) -> int:
    return workers_for(
        n=n,
        cores=cores,
        memory=memory,
        threads_each=threads_each,
        bytes_each=bytes_each,
    )


@pytest.mark.parametrize(
    ("asked", "workers"),
    [
        ({"n": 3}, 3),
        ({"n": 0}, 0),
        ({"cores": 8}, 2),
        ({"cores": 9}, 3),
        ({"cores": 0}, 0),
        ({"cores": 0.5}, 1),
        ({"memory": "4 GiB"}, 2),
        ({"memory": "4.1 GiB"}, 3),
        ({"memory": 0}, 0),
        ({"n": 1, "cores": 9, "memory": "4 GiB"}, 3),
        ({"n": 7, "cores": 9, "memory": "4 GiB"}, 7),
    ],
)
def test_what_is_asked_for_is_there_at_least(
    asked: dict[str, object], workers: int
) -> None:
    assert needed(**asked) == workers  # type: ignore[arg-type]


def test_no_number_at_all() -> None:
    with pytest.raises(TypeError, match="n=, cores= or memory="):
        needed()


@pytest.mark.parametrize("each", [None, 0])
def test_workers_of_unknown_size(each: int | None) -> None:
    with pytest.raises(ValueError, match="cores cannot be used here: the number of"):
        needed(cores=3, threads_each=each)
    with pytest.raises(ValueError, match="memory cannot be used here: the memory of"):
        needed(memory="1 GiB", bytes_each=each)
    assert needed(n=3, threads_each=each, bytes_each=each) == 3


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ((None, None, None), None),
        ((2, None, None), 2),
        ((None, 9, None), 3),
        ((None, None, "5 GiB"), 3),
        ((1, 9, "20 GiB"), 10),
    ],
)
def test_a_minimum_is_reached(
    given: tuple[object, object, object], bound: int | None
) -> None:
    assert lower_bound(*given, 4, 2 * GIB) == bound


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ((None, None, None), None),
        ((2, None, None), 2),
        ((math.inf, None, None), math.inf),
        ((None, 9, None), 2),
        ((None, None, "5 GiB"), 2),
        ((0, None, None), 0),
        ((None, 0, None), 0),
        ((7, 9, "20 GiB"), 2),
    ],
)
def test_a_maximum_is_never_exceeded(
    given: tuple[object, object, object], bound: float | None
) -> None:
    assert upper_bound(*given, 4, 2 * GIB) == bound


@pytest.mark.parametrize("given", [(None, 3, None), (None, None, "1 GiB")])
def test_a_maximum_that_allows_not_even_one(
    given: tuple[object, object, object],
) -> None:
    with pytest.raises(ValueError, match="must allow at least one worker"):
        upper_bound(*given, 4, 2 * GIB)
