"""Settings read from dask's configuration."""

from __future__ import annotations

from pathlib import Path

import dask.config
import yaml

from dask_fleet.cluster.arguments import seconds, worker_count
from dask_fleet.cluster.scheduler_link import Leaving
from dask_fleet.core import Deadlines, Patience, Settings


def load_defaults() -> None:
    """Make the defaults of ``fleet.yaml`` known to dask's configuration."""
    text = (Path(__file__).parent.parent / "fleet.yaml").read_text(encoding="utf-8")
    dask.config.update_defaults(yaml.safe_load(text))


def configured_seconds(key: str, *, positive: bool = True) -> float:
    """Read a time from the configuration.

    Parameters
    ----------
    key
        Such as ``"fleet.close-timeout"``.
    positive
        Zero is refused.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    ValueError
        If it is no time; the message names the key and the value.
    """
    return seconds(key, dask.config.get(key), positive=positive)


def configured_count(key: str, *, lowest: int = 0) -> int:
    """Read a whole number from the configuration."""
    return worker_count(key, dask.config.get(key), lowest=lowest)


def configured_fraction(key: str) -> float:
    """Read a share above 0 and at most 1 from the configuration."""
    value = dask.config.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{key} must be a number above 0, at most 1; got {value!r}")
    if not 0 < value <= 1:
        raise ValueError(f"{key} must be a number above 0, at most 1; got {value!r}")
    return float(value)


def configured_leaving() -> Leaving:
    """Read how workers leave."""
    drain_timeout = dask.config.get("fleet.drain-timeout")
    return Leaving(
        drain_timeout=None
        if drain_timeout is None
        else seconds("fleet.drain-timeout", drain_timeout, positive=False),
        memory_fraction=configured_fraction("fleet.memory-fraction"),
    )


def configured_settings(workers_per_instance: int) -> Settings:
    """Read what decisions depend on.

    Parameters
    ----------
    workers_per_instance
        How many workers an instance of this kind of cluster holds.
    """
    return Settings(
        workers_per_instance=workers_per_instance,
        deadlines=Deadlines(
            start_warn=configured_seconds("fleet.deadlines.start-warn"),
            start_fail=configured_seconds("fleet.deadlines.start-fail"),
            lost=configured_seconds("distributed.deploy.lost-worker-timeout"),
            leave=configured_seconds("fleet.deadlines.leave"),
            ask_again=configured_seconds("fleet.deadlines.ask-again"),
        ),
        patience=Patience(
            first_pause=configured_seconds("fleet.patience.first-pause"),
            longest_pause=configured_seconds("fleet.patience.longest-pause"),
            strikes_before_arrival=configured_count(
                "fleet.patience.strikes-before-arrival", lowest=1
            ),
            strikes=configured_count("fleet.patience.strikes", lowest=1),
            infancy=configured_seconds("fleet.patience.infancy", positive=False),
        ),
    )
