"""Tasks of the cases. Workers import this file, so it needs nothing but Python."""

from __future__ import annotations

import os
import time


def note(log: str, number: object, word: str = "begin") -> None:
    """Append one line, whole even if many processes write at once."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{number} {os.getpid()} {word}\n".encode())
    finally:
        os.close(descriptor)


def work(number: int, log: str, seconds: float = 0.0) -> int:
    """Note that it has begun, take a while, return its number."""
    note(log, number)
    time.sleep(seconds)
    return number


def work_on(numbers: list[int], log: str, seconds: float) -> int:
    """Like `work`, on the results of others."""
    note(log, "all")
    time.sleep(seconds)
    return sum(numbers)


def nap(number: int, seconds: float) -> int:
    """Take a while."""
    time.sleep(seconds)
    return number
