"""How fast a policy may want to be: quick where starting a worker is cheap."""

from __future__ import annotations

#: A worker should be at work for at least so many times as long as it took to start.
WORTH = 5.0

#: No computation is wanted to be shorter than this, in seconds: the tasks' durations
#: are not known any better.
SHORTEST = 1.0


def pace(target_duration: float, start_time: float | None) -> float:
    """Say how long a computation should take, given what a start costs.

    Where workers start in a fraction of a second, it makes no sense to let work queue
    up for as long as on a batch system. So the default duration is cut to ``WORTH``
    times the usual start time.

    Parameters
    ----------
    target_duration
        The longest that a computation should take, in seconds.
    start_time
        Seconds from asking for a worker to its arrival, as seen here; ``None`` if no
        worker has arrived yet.

    Returns
    -------
    float
        Seconds.

    Examples
    --------
    >>> pace(5.0, None), pace(5.0, 0.3), pace(5.0, 60.0)
    (5.0, 1.5, 5.0)
    """
    if start_time is None:
        return target_duration
    return min(target_duration, max(SHORTEST, WORTH * start_time))
