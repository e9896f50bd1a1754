"""The command line: read, checked, and refused before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from dask_fleet.cli import fleet, session
from dask_fleet.cli.build import keywords
from dask_fleet.cli.options import Bounds, FleetOptions


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What sessions were made with; none is run."""
    noted: list[Any] = []

    class Noted:
        def __init__(self, options: FleetOptions, display: object) -> None:
            noted.extend([options, type(display).__name__])

        def run(self, command: Sequence[str]) -> int:
            noted.append(command)
            return 7

        def up(self, say: object) -> int:
            return 0

    monkeypatch.setattr(session, "Session", Noted)
    return noted


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(fleet, arguments, prog_name="dask fleet")


def test_plain_run(seen: list[Any]) -> None:
    assert invoke("run", "--", "true", "--workers", "x").exit_code == 7
    assert seen == [FleetOptions(), "Lines", ("true", "--workers", "x")]


def test_dashes_may_be_left_out(seen: list[Any]) -> None:
    invoke("run", "-q", "true", "-q", "--adapt")
    assert seen == [FleetOptions(), "Quiet", ("true", "-q", "--adapt")]


def test_every_option(seen: list[Any]) -> None:
    text = (
        "up --adapt 1:4 --threads 2 --memory 1GiB --name me --dashboard-address :0 "
        "--port 8786 --quiet"
    )
    assert invoke(*text.split()).exit_code == 0
    assert seen[0] == FleetOptions(
        adapt=Bounds(minimum=1, maximum=4),
        threads=2,
        memory=2**30,
        name="me",
        dashboard_address=":0",
        port=8786,
    )


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("0:4", Bounds(minimum=0, maximum=4)),
        ("2:2", Bounds(minimum=2, maximum=2)),
        ("3:", Bounds(minimum=3, maximum=None)),
        (":8", Bounds(minimum=0, maximum=8)),
    ],
)
def test_bounds(text: str, bounds: Bounds, seen: list[Any]) -> None:
    invoke("run", "--adapt", text, "--", "true")
    assert seen[0].adapt == bounds


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--workers", "-1"),
        ("--workers", "2.5"),
        ("--workers", "many"),
        ("--adapt", "4"),
        ("--adapt", ":"),
        ("--adapt", "4:2"),
        ("--adapt", "0:0"),
        ("--adapt", ":0"),
        ("--adapt", "-1:2"),
        ("--adapt", "1:2:3"),
        ("--adapt", "a:b"),
        ("--adapt", "1.5:3"),
        ("--adapt", "٣:٤"),
        ("--threads", "0"),
        ("--memory", "5 parsecs"),
        ("--memory", "2"),
        ("--memory", "-2GiB"),
        ("--memory", "nan"),
        ("--memory", ""),
        ("--dashboard-address", "localhost"),
        ("--dashboard-address", ":99999"),
        ("--dashboard-address", ":http"),
    ],
)
@pytest.mark.parametrize("command", [("run",), ("up",)])
def test_refused(
    command: tuple[str, ...], option: str, value: str, seen: list[Any]
) -> None:
    """The message names the option and the value; nothing is started."""
    result = invoke(*command, option, value, *(["true"] * (command == ("run",))))
    assert result.exit_code == 2
    assert option in result.stderr
    assert value in result.stderr
    assert not seen


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_refused_port(port: str, seen: list[Any]) -> None:
    result = invoke("up", "--port", port)
    assert (result.exit_code, seen) == (2, [])
    assert f"{port}" in result.stderr


def test_workers_and_adapt_exclude_each_other(seen: list[Any]) -> None:
    result = invoke("run", "--workers", "2", "--adapt", "0:4", "--", "true")
    assert (result.exit_code, seen) == (2, [])
    assert "give one of the two" in result.stderr


def test_no_command(seen: list[Any]) -> None:
    assert invoke("run").exit_code == 2
    assert not seen


def test_missing_command(seen: list[Any]) -> None:
    result = invoke("run", "--", "no-such-command")
    assert (result.exit_code, result.stdout) == (127, "")
    assert result.stderr == "dask fleet: no-such-command: command not found\n"
    assert not seen


def test_keywords_for_a_fixed_number() -> None:
    options = FleetOptions(workers=2, threads=3, memory=2**30, name="me", port=8786)
    assert keywords(options) == {
        "n_workers": 2,
        "threads_per_worker": 3,
        "memory_limit": 2**30,
        "name": "me",
        "scheduler_port": 8786,
    }


def test_no_workers_is_a_number_too() -> None:
    assert keywords(FleetOptions(workers=0)) == {"n_workers": 0}


@pytest.mark.parametrize(
    ("cores", "maximum", "threads"), [(8, 4, 2), (8, 3, 3), (2, 4, 1), (8, None, 1)]
)
def test_threads_share_the_cores_among_the_most_workers(
    cores: int, maximum: int | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dask.system.CPU_COUNT", cores)
    options = FleetOptions(adapt=Bounds(minimum=1, maximum=maximum))
    assert keywords(options) == {"n_workers": 1, "threads_per_worker": threads}


def test_dask_finds_the_group() -> None:
    from importlib.metadata import entry_points

    (found,) = entry_points(group="dask_cli", name="fleet")
    command = found.load()
    assert command is fleet
    assert isinstance(command, click.Group)
    assert command.name == "fleet"
