"""The commands as ``click`` sees them."""

from __future__ import annotations

import click

from dask_fleet.cli.options import FleetOptions, cluster_options


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def fleet() -> None:
    """Clusters that scale: run a command with one, or keep one up."""


@fleet.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command with a cluster.",
)
@cluster_options
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="-- COMMAND [ARG]...",
)
def run(options: FleetOptions, quiet: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND with a cluster on this machine, and end both together.

    A plain Client() in any Python program finds the cluster, because COMMAND gets its
    address as DASK_SCHEDULER_ADDRESS. On a terminal a live block shows what the cluster
    does and why; elsewhere there is a line for each change. The exit code is COMMAND's.

    \b
    dask fleet run -- python script.py
    dask fleet run --adapt 0:4 -- python script.py --fast
    """  # noqa: D301 - the sequence keeps click from filling the lines after it
    # Late, because dask loads every command group for each of its commands.
    from dask_fleet.cli.command import CannotRun, find

    try:
        find(command[0])
    except CannotRun as error:
        click.echo(f"dask fleet: {error}", err=True)
        raise SystemExit(error.code) from None
    from dask_fleet.cli.display import choose
    from dask_fleet.cli.session import Session

    raise SystemExit(Session(options, choose(quiet=quiet)).run(command))


@fleet.command(short_help="Keep a cluster up until Ctrl-C.")
@cluster_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=0,
    help="Port of the scheduler.  [default: any free one]",
)
def up(options: FleetOptions, quiet: bool) -> None:
    """Keep a cluster up on this machine until Ctrl-C.

    Prints the scheduler's address and the link to the dashboard on standard output.
    """
    from dask_fleet.cli.display import choose
    from dask_fleet.cli.output import standard_output
    from dask_fleet.cli.session import Session

    session = Session(options, choose(quiet=quiet))
    raise SystemExit(session.up(standard_output()))
