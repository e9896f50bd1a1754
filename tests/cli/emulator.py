"""A small terminal: enough of a VT100 to see what a user would see.

It knows the sequences that the block and its tests use, and refuses any other.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b([78D])|([\r\n\b])|([^\x1b\r\n\b])")


class Emulator:
    """A screen of so many columns and rows, and what has scrolled off its top."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.history: list[str] = []
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._saved = (0, 0)
        self._margins = (0, rows - 1)
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """What is on the screen, without blanks at the ends of lines."""
        return ["".join(cells).rstrip() for cells in self._cells]

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column of the cursor, from 0."""
        return self._row, self._column

    @property
    def margins(self) -> tuple[int, int]:
        """First and last row of the scrolling region, from 0."""
        return self._margins

    def feed(self, text: str) -> None:
        """Take output."""
        text = self._rest + text
        end = 0
        while found := _TOKEN.match(text, end):
            end = found.end()
            self._take(found)
        self._rest = text[end:]
        assert len(self._rest) < 12, f"unknown sequence: {self._rest[:12]!r}"

    def _take(self, found: re.Match[str]) -> None:
        numbers, letter, escape, control, char = found.groups()
        if char:
            self._put(char)
        elif letter:
            self._sequence([int(n) for n in numbers.split(";") if n], letter)
        elif escape == "7":
            self._saved = (self._row, self._column)
        elif escape == "8":
            self._row, self._column = self._saved
        elif escape == "D" or control == "\n":
            self._down()
        elif control == "\r":
            self._column = 0
        else:
            self._column = max(0, self._column - 1)

    def _sequence(self, numbers: list[int], letter: str) -> None:
        first = numbers[0] if numbers else 0
        if letter == "r":
            top, bottom = numbers or (1, self.rows)
            self._margins = (top - 1, bottom - 1)
            self._row = self._column = 0
        elif letter == "H":
            row, column = numbers or (1, 1)
            self._row, self._column = row - 1, column - 1
        elif letter == "A":
            top = self._margins[0] if self._row >= self._margins[0] else 0
            self._row = max(top, self._row - max(1, first))
        elif letter == "K":
            start = 0 if first == 2 else self._column
            self._blank(self._row, start)
        elif letter == "J":
            assert first == 0
            self._blank(self._row, self._column)
            for row in range(self._row + 1, self.rows):
                self._blank(row, 0)
        else:
            assert letter == "m", f"unknown sequence: {numbers}{letter}"

    def _blank(self, row: int, start: int) -> None:
        self._cells[row][start:] = [" "] * (self.columns - start)

    def _put(self, char: str) -> None:
        if self._column == self.columns:
            self._column = 0
            self._down()
        self._cells[self._row][self._column] = char
        self._column += 1

    def _down(self) -> None:
        top, bottom = self._margins
        if self._row == bottom:
            gone = "".join(self._cells.pop(top)).rstrip()
            if top == 0:
                self.history.append(gone)
            self._cells.insert(bottom, [" "] * self.columns)
        else:
            self._row = min(self.rows - 1, self._row + 1)
