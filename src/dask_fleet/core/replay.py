"""Make recorded decisions again: ``python -m dask_fleet.core.replay FILE``.

Each line of the file is decided anew. What is decided the same is told in a line; the
first difference is shown in full, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from dask_fleet.core.decide import Decision, decide
from dask_fleet.core.record import read


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded decision, and what is decided from the same facts today.

    Parameters
    ----------
    number
        The line of the file, from 1.
    recorded, now
        The decisions.
    """

    number: int
    recorded: Decision
    now: Decision

    @property
    def differences(self) -> list[str]:
        """Where they differ, a line each; empty if they are the same."""
        return [
            f"{one.name}: recorded {old!r}, now {new!r}"
            for one in fields(Decision)
            if (old := getattr(self.recorded, one.name))
            != (new := getattr(self.now, one.name))
        ]

    def __str__(self) -> str:
        told = "; ".join(reason.sentence for reason in self.now.reasons)
        calls = ", ".join(type(one).__name__ for one in self.now.commands)
        return (
            f"line {self.number}: at {self.now.now:.3f} s target {self.now.target}, "
            f"allowed {self.now.allowed}, {self.now.before} -> {self.now.after}: "
            f"{calls or 'nothing to do'}" + (f" ({told})" if told else "")
        )


def replay(lines: Iterable[str]) -> Iterator[Replayed]:
    """Decide again from recorded facts.

    Parameters
    ----------
    lines
        As ``record.line`` has written them; empty ones are passed over.

    Raises
    ------
    ValueError
        If a line is no recorded decision; the message names the line.
    """
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            facts, recorded = read(text)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
        yield Replayed(number, recorded, decide(facts))


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a file; return the exit code: 0 same, 1 different, 2 unreadable."""
    parser = argparse.ArgumentParser(
        prog="python -m dask_fleet.core.replay",
        description="Make recorded decisions again and compare.",
    )
    parser.add_argument("file", type=Path, help="as written by fleet.record")
    file = parser.parse_args(arguments).file
    try:
        with file.open(encoding="utf-8") as lines:
            for one in replay(lines):
                print(one)
                if one.differences:
                    print("different from what was recorded:")
                    print("\n".join(f"  {text}" for text in one.differences))
                    return 1
    except (OSError, ValueError) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
