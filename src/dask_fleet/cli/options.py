"""What the command line says, read and checked before anything is started."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

#: Below this a memory limit is a slip ("2" for "2GiB"): no worker could even start.
SMALLEST_MEMORY = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of adaptive scaling, in workers; the cluster may know a maximum."""

    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """Everything the command line says about the cluster.

    Parameters
    ----------
    workers
        Fixed number of workers; ``None`` for the cluster's default.
    adapt
        Bounds of adaptive scaling; ``None`` for a fixed number.
    threads
        Threads of each worker; ``None`` for the cluster's default.
    memory
        Memory limit of each worker in bytes; ``None`` for the cluster's default.
    name
        Name of the cluster; ``None`` for a made-up one.
    dashboard_address
        Where the dashboard listens; ``None`` for the cluster's default.
    port
        Port of the scheduler; 0 for any free one.
    """

    workers: int | None = None
    adapt: Bounds | None = None
    threads: int | None = None
    memory: int | None = None
    name: str | None = None
    dashboard_address: str | None = None
    port: int = 0


def read_bounds(text: str) -> Bounds:
    """Read ``MIN:MAX``, ``MIN:`` or ``:MAX``, in workers.

    Examples
    --------
    >>> read_bounds("0:4"), read_bounds("2:")
    (Bounds(minimum=0, maximum=4), Bounds(minimum=2, maximum=None))
    """
    found = re.fullmatch(r"([0-9]{0,9}):([0-9]{0,9})", text)
    if found is None or text == ":":
        raise ValueError(f"{text!r} is not MIN:MAX, MIN: or :MAX in workers")
    low, high = found.groups()
    bounds = Bounds(minimum=int(low or 0), maximum=int(high) if high else None)
    if bounds.maximum is not None and bounds.maximum < bounds.minimum:
        raise ValueError(f"{text!r}: the maximum is below the minimum")
    if bounds.maximum == 0:
        raise ValueError(f"{text!r}: with a maximum of 0 nothing would ever run")
    return bounds


def read_memory(text: str) -> int:
    """Read a size such as ``2GiB``, in bytes.

    Examples
    --------
    >>> read_memory("2GiB")
    2147483648
    """
    from dask.utils import parse_bytes

    try:
        size = int(parse_bytes(text))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a size such as 2GiB") from None
    if size < SMALLEST_MEMORY:
        raise ValueError(
            f"{text!r} is {size} bytes, too little for a worker; "
            "give a size with its unit, such as 2GiB"
        )
    return size


def read_address(text: str) -> str:
    """Read ``HOST:PORT`` or ``:PORT``.

    Examples
    --------
    >>> read_address(":0")
    ':0'
    """
    _, colon, port = text.rpartition(":")
    if not (colon and re.fullmatch("[0-9]{1,5}", port) and int(port) < 2**16):
        raise ValueError(f"{text!r} is not HOST:PORT or :PORT")
    return text


def _reader(read: Callable[[str], object]) -> Callable[..., object]:
    """Make a callback of click from a function that reads a text."""

    def callback(
        context: click.Context, parameter: click.Parameter, value: str | None
    ) -> object:
        if value is None:
            return None
        try:
            return read(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from None

    return callback


_OPTIONS = (
    click.option(
        "--workers",
        type=click.IntRange(min=0),
        metavar="N",
        help="Keep this many workers.  [default: as many as fit this machine]",
    ),
    click.option(
        "--adapt",
        metavar="MIN:MAX",
        callback=_reader(read_bounds),
        help="Let the number of workers follow the work, within these bounds; "
        "also MIN: (up to what fits this machine) and :MAX (from 0).",
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        metavar="N",
        help="Threads of each worker.  [default: what fits this machine]",
    ),
    click.option(
        "--memory",
        metavar="SIZE",
        callback=_reader(read_memory),
        help="Memory limit of each worker, such as 2GiB.  "
        "[default: its share of this machine]",
    ),
    click.option("--name", metavar="TEXT", help="Name of the cluster."),
    click.option(
        "--dashboard-address",
        metavar="HOST:PORT",
        callback=_reader(read_address),
        help="Where the dashboard listens, also :PORT.  [default: :8787]",
    ),
)


def cluster_options(command: Function) -> Function:
    """Give a command the options that describe a cluster, as one argument."""

    @functools.wraps(command)
    def with_options(*, quiet: bool, **values: Any) -> Any:
        own = {name: values.pop(name) for name in _names() if name in values}
        return command(options=_checked(FleetOptions(**own)), quiet=quiet, **values)

    decorated: Any = with_options
    quiet = click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
    for option in reversed((*_OPTIONS, quiet)):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _names() -> tuple[str, ...]:
    return tuple(FleetOptions.__dataclass_fields__)


def _checked(options: FleetOptions) -> FleetOptions:
    if options.workers is not None and options.adapt is not None:
        raise click.UsageError(
            "--workers keeps a number and --adapt changes it: give one of the two."
        )
    return options
