"""Small tools for text that is shown: clean, clip, count, duration."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text


def clean(text: str) -> str:
    r"""Make foreign text safe to show: one line, nothing that moves a cursor.

    Sentences carry the words of resource managers and of failed programs, which may
    hold line breaks and escape sequences.

    Examples
    --------
    >>> clean("quota exceeded:\n  \x1b[31mno nodes")
    'quota exceeded: [31mno nodes'
    """
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())


def clip(line: Text, width: int, mark: str = "…") -> Text:
    """Cut a line to so many terminal cells, with a mark where something was cut.

    Examples
    --------
    >>> str(clip(Text("a long line"), 8))
    'a long …'
    >>> str(clip(Text("a long line"), 8, mark="..."))
    'a lon...'
    """
    if line.cell_len <= width:
        return line
    cut = line.copy()
    cut.truncate(max(0, width - cell_len(mark)), overflow="crop")
    cut.append(mark[:width])
    return cut


def count(number: int, noun: str) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> count(1, "worker"), count(0, "worker")
    ('1 worker', '0 workers')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Write whole seconds the way people say them.

    Examples
    --------
    >>> duration(9.7), duration(65), duration(7384)
    ('9 s', '1 min 05 s', '2 h 03 min')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    if minutes:
        return f"{minutes} min {rest:02} s"
    return f"{rest} s"
