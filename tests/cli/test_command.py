"""Finding and starting a command."""

import os
import sys
from pathlib import Path

import pytest

from dask_fleet.cli.command import CannotRun, Command, exit_code, find, outcome


def script(folder: Path, name: str, text: str, mode: int) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_found_by_name_and_by_path(tmp_path: Path) -> None:
    path = script(tmp_path, "job", "#!/bin/sh\n", 0o755)
    assert find("job", str(tmp_path)) == str(path)
    assert find(str(path)) == str(path)


@pytest.mark.parametrize("name", ["missing", "./missing", "/no/such/file", ""])
def test_not_found(name: str, tmp_path: Path) -> None:
    with pytest.raises(CannotRun) as error:
        find(name, str(tmp_path))
    assert (error.value.code, str(error.value)) == (127, f"{name}: command not found")


def test_not_executable(tmp_path: Path) -> None:
    path = script(tmp_path, "job", "#!/bin/sh\n", 0o644)
    for name in ("job", str(path), str(tmp_path)):
        with pytest.raises(CannotRun) as error:
            find(name, str(tmp_path))
        assert error.value.code == 126


@pytest.mark.parametrize(
    ("text", "words"),
    [("#!/no/such/interpreter\n", "its interpreter was not found"), ("\0", "Exec")],
)
def test_refused_by_the_system(text: str, words: str, tmp_path: Path) -> None:
    path = script(tmp_path, "job", text, 0o755)
    with pytest.raises(CannotRun, match=words) as error:
        Command([str(path)], {})
    assert error.value.code == 126


async def waited(command: Command) -> int:
    return await command.wait()


def test_exit_code_and_environment() -> None:
    import asyncio

    code = "import os, sys; sys.exit(int(os.environ['ANSWER']))"
    command = Command([sys.executable, "-c", code], {"ANSWER": "42"})
    assert asyncio.run(waited(command)) == 42


def test_signals_after_its_end_go_nowhere() -> None:
    import asyncio

    command = Command([sys.executable, "-c", ""], {})
    assert asyncio.run(waited(command)) == 0
    command.send(15)
    command.kill()
    assert os.getpid()


def test_how_it_ended() -> None:
    assert [exit_code(code) for code in (0, 3, -2, -9)] == [0, 3, 130, 137]
    assert outcome(1) == "exit code 1"
    assert outcome(-15) == "ended by SIGTERM"
    assert outcome(-63) == "ended by signal 63"
