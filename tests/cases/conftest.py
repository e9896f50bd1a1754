"""Which cases run: `pytest tests/cases --cases=all`, `--cases=2,3` or `--cases=R06`."""

from __future__ import annotations

import re

import pytest

#: Issue -> the cases that come out right with it.
CASES = {
    2: [6, 8, 10, 11, 12, 13, 14, 20, 23, 30, 32, 33, 34, 35, 36, 37, 41, 42],
    3: [1, 2, 3, 4, 5, 7, 9, 24, 25, 26, 27, 38, 39],
    4: [15, 16, 17, 18, 19, 21, 22, 28, 31, 40],
}
ISSUE = {
    f"R{number:02}": issue for issue, numbers in CASES.items() for number in numbers
}

#: What runs when nothing is said.
CLAIMED = "2"

_NAME = re.compile(r"test_r(\d\d)_")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        default=CLAIMED,
        metavar="all|2,3|R06",
        help="cases to run, by name or by the issue they belong to",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    # Collected from the top, this file is read too late for its option to exist.
    wanted = set(str(config.getoption("--cases", default=CLAIMED)).upper().split(","))
    by_id = any("::" in argument for argument in config.args)
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        match = _NAME.match(item.name) if "cases" in item.path.parts else None
        if match is None:
            kept.append(item)
            continue
        item.add_marker("integration")
        case = f"R{match[1]}"
        chosen = by_id or wanted & {"ALL", case, str(ISSUE[case])}
        (kept if chosen else dropped).append(item)
    items[:] = kept
    if dropped:
        config.hook.pytest_deselected(items=dropped)
