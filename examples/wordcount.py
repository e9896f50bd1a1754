"""Count the words of real text on a Dask cluster, in bursts with pauses.

By default the text is every source file of the running Python's standard library;
another folder may be named. Each burst reads all files in many small tasks. In the
pause after it the cluster has nothing to do, and this process counts the same files
once more by itself: the two counts must be equal, or the program ends with 1.

    python examples/wordcount.py [FOLDER]

The cluster is the one at DASK_SCHEDULER_ADDRESS; without it, Dask starts one here.
To see a cluster grow for each burst and shrink in each pause:

    dask fleet run --adapt 0:4 -- python examples/wordcount.py
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from distributed import Client, as_completed

LETTERS = re.compile(r"[^\W\d_]+")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
NOT_OURS = {"site-packages", "dist-packages", "__pycache__"}


def words(text: str) -> Iterator[str]:
    """Yield the words of a text in lower case; names are split into their words.

    >>> list(words("parseHTTPHeader(next_line) # größer"))
    ['parse', 'http', 'header', 'next', 'line', 'grösser']
    """
    for run in LETTERS.findall(text):
        for word in HUMP.split(run):
            yield word.casefold()


def count_words(text: str) -> Counter[str]:
    """How often each word stands in a text.

    >>> count_words("to be or not to be")
    Counter({'to': 2, 'be': 2, 'or': 1, 'not': 1})
    """
    return Counter(words(text))


def count_pairs(text: str) -> Counter[str]:
    """How often two words stand side by side.

    >>> count_pairs("to be or not to be")["to be"]
    2
    """
    return Counter(f"{one} {two}" for one, two in pairwise(words(text)))


def count_files(text: str) -> Counter[str]:
    """Each word of a text once: added up, the number of files that have it.

    >>> count_files("to be or not to be")["to"]
    1
    """
    return Counter(set(words(text)))


BURSTS: tuple[tuple[str, str, Callable[[str], Counter[str]]], ...] = (
    ("words", "words", count_words),
    ("pairs", "pairs of neighbouring words", count_pairs),
    ("files", "files in which a word stands", count_files),
)


def read_text(path: str | Path) -> str:
    """Read a file; bytes that are not UTF-8 become the replacement character."""
    return Path(path).read_bytes().decode("utf-8", errors="replace")


def count_all(
    paths: Iterable[str], count: Callable[[str], Counter[str]]
) -> Counter[str]:
    """Add up one kind of count over some files: one task, or all of them here."""
    total: Counter[str] = Counter()
    for path in paths:
        total.update(count(read_text(path)))
    return total


def find_files(folder: Path, pattern: str = "*.py") -> list[str]:
    """List the readable files below a folder in a fixed order, without packages."""
    return sorted(
        str(path)
        for path in folder.rglob(pattern)
        if not NOT_OURS.intersection(path.relative_to(folder).parts)
        and path.is_file()
        and os.access(path, os.R_OK)
    )


def split_files(paths: Sequence[str], parts: int) -> list[list[str]]:
    """Split files into at most so many parts of about the same size in bytes.

    Every file is in exactly one part, and no part is empty.
    """
    sizes = {path: os.path.getsize(path) for path in paths}
    filled: list[tuple[int, list[str]]] = [(0, []) for _ in range(parts)]
    for path in sorted(paths, key=lambda path: (-sizes[path], path)):
        least = min(range(parts), key=lambda part: filled[part][0])
        size, members = filled[least]
        # Never 0, so that empty files spread too.
        filled[least] = (size + sizes[path] + 1, [*members, path])
    return [members for _, members in filled if members]


def most_common(counts: Counter[str], number: int) -> str:
    """Name the most frequent entries; ties in alphabetic order.

    >>> most_common(Counter(b=1, a=1, c=2), 2)
    'c 2, a 1'
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{entry} {times:,}" for entry, times in ranked[:number])


def difference(cluster: Counter[str], here: Counter[str]) -> str | None:
    """Say how two counts differ, or None when they are equal.

    >>> difference(Counter(a=1), Counter(a=1))
    >>> difference(Counter(a=3, b=1), Counter(a=2, b=1))
    "1 entry differs; 'a' is 3 on the cluster and 2 here"
    """
    wrong = sorted(
        entry for entry in cluster.keys() | here.keys() if cluster[entry] != here[entry]
    )
    if not wrong:
        return None
    differ = "1 entry differs" if len(wrong) == 1 else f"{len(wrong):,} entries differ"
    return (
        f"{differ}; {wrong[0]!r} is {cluster[wrong[0]]:,} on the cluster "
        f"and {here[wrong[0]]:,} here"
    )


def count_on(
    client: Client,
    parts: list[list[str]],
    name: str,
    count: Callable[[str], Counter[str]],
) -> Counter[str]:
    """Count all parts on the cluster; when this returns, nothing is left there."""
    futures = client.map(count_all, parts, count=count, key=f"count-{name}", pure=False)
    total: Counter[str] = Counter()
    for _, counts in as_completed(futures, with_results=True):
        total.update(counts)
    return total


def run(client: Client, paths: Sequence[str], *, tasks: int, pause: float) -> int:
    """Run the bursts, check each one, and return the exit code."""
    begin = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begin:5.1f} s] {line}", flush=True)

    parts = split_files(paths, tasks)
    size = sum(os.path.getsize(path) for path in paths)
    say(f"{len(paths):,} files, {size / 1e6:.1f} MB, {len(parts)} tasks a burst")

    for number, (name, what, count) in enumerate(BURSTS, start=1):
        burst = f"burst {number} of {len(BURSTS)}"
        say(f"{burst}: {what}, on the cluster")
        total = count_on(client, parts, name, count)
        say(f"{burst}: {total.total():,} in all; most often {most_common(total, 2)}")

        say("pause: this process counts the same alone, to compare")
        idle = time.monotonic()
        differ = difference(total, count_all(paths, count))
        if differ is not None:
            say(f"WRONG: {differ}")
            return 1
        say(f"right: all {len(total):,} entries are equal")
        time.sleep(max(0.0, idle + pause - time.monotonic()))

    say(f"all {len(BURSTS)} bursts are right")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Count the words of real text on a Dask cluster, in bursts."
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(sysconfig.get_path("stdlib")),
        help="where the text is (default: this Python's standard library)",
    )
    parser.add_argument(
        "--pattern", default="*.py", help="names of the files (default: %(default)s)"
    )
    parser.add_argument(
        "--tasks", type=int, default=60, help="tasks in a burst (default: %(default)s)"
    )
    parser.add_argument(
        "--pause",
        type=float,
        default=6.0,
        help="seconds that the cluster has nothing to do after a burst, at least "
        "(default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    if options.tasks < 1:
        parser.error(f"--tasks must be at least 1, not {options.tasks}")
    if not 0 <= options.pause < float("inf"):
        parser.error(f"--pause must be a number of seconds, not {options.pause}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, check, and return the exit code."""
    options = parse(arguments)
    paths = find_files(options.folder, options.pattern)
    if not paths:
        print(f"no file {options.pattern} below {options.folder}", file=sys.stderr)
        return 2
    with Client() as client:
        return run(client, paths, tasks=options.tasks, pause=options.pause)


if __name__ == "__main__":
    sys.exit(main())
