"""The small tools: what they must never let through."""

import pytest
from rich.text import Text

from dask_fleet.view.text import clean, clip


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("two\nlines", "two lines"),
        ("\x1b[2Jgone", "[2Jgone"),
        ("tab\tand\r\nreturn", "tab and return"),
        ("broken \udcff byte", "broken byte"),
        ("right-to-left \u202e mark", "right-to-left mark"),
        ("größer als 日本", "größer als 日本"),
    ],
)
def test_clean_leaves_nothing_that_moves_a_cursor(given: str, shown: str) -> None:
    assert clean(given) == shown


@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize("mark", ["…", "..."])
def test_clip_never_gives_more_cells_than_asked_for(width: int, mark: str) -> None:
    assert clip(Text("日本の言葉"), width, mark).cell_len <= width
