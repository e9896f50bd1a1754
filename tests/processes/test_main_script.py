"""The main script in a child: imported as by spawn, and never run again."""

from __future__ import annotations

from pathlib import Path

from tests.processes.support import outcome

_HEAD = """
    import asyncio, os, sys
    from dask_fleet.processes import ForkServer, MainGuardError

    async def in_child(function, *args):
        server = ForkServer()
        try:
            return await server.run(function, *args)
        finally:
            await server.release()
"""


def test_main_is_imported_under_another_name(tmp_path: Path) -> None:
    ended = outcome(
        tmp_path,
        _HEAD
        + """
    class Thing:
        def __reduce__(self):
            return Thing, ()

    def is_same(thing):
        import __main__
        return __name__, type(thing) is __main__.Thing is Thing

    if __name__ == "__main__":
        print(asyncio.run(in_child(is_same, Thing())))
    """,
    )
    assert (ended.stdout, ended.stderr) == ("('__mp_main__', True)\n", "")


def test_missing_guard_is_one_short_hint(tmp_path: Path) -> None:
    ended = outcome(
        tmp_path,
        _HEAD
        + """
    print("imported")
    try:
        asyncio.run(in_child(os.getpid))
    except MainGuardError as error:
        if __name__ == "__main__":
            sys.exit(f"hint: {error}")
        raise
    """,
    )
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == ["imported"] * 2
    assert ended.stderr == (
        "hint: the script builds a cluster while it is being imported by a worker; "
        'put it under `if __name__ == "__main__":`\n'
    )


def test_main_that_cannot_be_imported(tmp_path: Path) -> None:
    ended = outcome(
        tmp_path,
        _HEAD
        + """
    if __name__ != "__main__":
        raise LookupError("only once")
    try:
        asyncio.run(in_child(os.getpid))
    except LookupError as error:
        print(repr(error), "line 13" in str(error.__cause__))
    """,
    )
    assert ended.stdout == "LookupError('only once') True\n", ended.stderr
    assert ended.stderr == ""


def test_main_that_exits(tmp_path: Path) -> None:
    ended = outcome(
        tmp_path,
        _HEAD
        + """
    if __name__ != "__main__":
        sys.exit(3)
    try:
        asyncio.run(in_child(os.getpid))
    except SystemExit as error:
        print(repr(error))
    """,
    )
    assert ended.stdout == "SystemExit(3)\n", ended.stderr


def test_interactive_functions_go_by_value() -> None:
    """At a prompt there is no main script to import."""
    ended = outcome(
        None,
        _HEAD
        + """
    def answer():
        return 42

    print(asyncio.run(in_child(answer)))
    """,
    )
    assert ended.stdout == "42\n", ended.stderr
