"""``dask fleet`` on a terminal, with a stand-in for the cluster."""

from __future__ import annotations

import re
import signal

from tests.cli.terminal import FAKE, job, on_terminal, python
from tests.cli.test_run import TELL_SIGNALS, WAIT

RUN = (*FAKE, "run")
BODY = [
    "workers  target 2  plan 2  requested 2  observed 2",
    "tasks    not known",
    "why      scale(2) was called: 0 -> 2 workers",
]


def test_output_and_input_above_the_block() -> None:
    """1. More lines than fit. 2. A prompt, answered. 3. The block goes at the end."""
    code = (
        "for n in range(30): print('line', n)\n"
        "name = input('your name? ')\n"
        "print('hello', name)\n"
        "input('enough? ')\n"
    )
    with on_terminal([*RUN, "--", *python(code)], columns=100) as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY and lines[9] == "your name?")
        screen = terminal.emulator.lines
        assert screen[:9] == [f"line {n}" for n in range(21, 30)]
        assert screen[10].startswith("── dask fleet  manual  http://127.0.0.1:2/status")
        terminal.type("Ada\n")
        terminal.until(lambda lines: lines[9] == "enough?")
        assert terminal.emulator.lines[7:9] == ["your name? Ada", "hello Ada"]
        assert terminal.emulator.lines[-3:] == BODY
        terminal.type("\n")
        assert terminal.until_ended() == 0
    text = [line for line in terminal.text if line]
    assert text[:-1] == [
        *(f"line {n}" for n in range(30)),
        "your name? Ada",
        "hello Ada",
        "enough?",
    ]
    assert text[-1].startswith("dask fleet: exit code 0 after ")
    assert terminal.emulator.margins == (0, 13)


def test_summary_begins_a_line() -> None:
    code = "import sys; print('no newline', end='', flush=True); sys.stdin.read()"
    with on_terminal([*RUN, "--", *python(code)]) as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY and lines[0])
        terminal.type("\x04")
        assert terminal.until_ended() == 0
    assert terminal.text[0] == "no newline"
    assert any(line.startswith("dask fleet: exit code 0") for line in terminal.text)


def test_command_has_the_terminal() -> None:
    code = "import os; print([os.isatty(fd) for fd in range(3)])"
    with on_terminal([*RUN, "-q", "--", *python(code)]) as terminal:
        assert terminal.until_ended() == 0
    assert terminal.emulator.lines[0] == "[True, True, True]"
    assert "\x1b" not in terminal.raw


def test_ctrl_c_reaches_the_command_once() -> None:
    """A second copy would come before the next signal."""
    with on_terminal([*RUN, "--", *python(TELL_SIGNALS)]) as terminal:
        terminal.until(lambda lines: "ready" in lines and lines[-3:] == BODY)
        terminal.type("\x03")
        terminal.until(lambda lines: heard(lines) == ["SIGINT"])
        terminal.until(lambda lines: "Ctrl-C again now" in lines[-1])
        terminal.type("\x1c")
        assert terminal.until_ended() == 0
    assert heard(terminal.text) == ["SIGINT", "SIGQUIT"]


def heard(lines: list[str]) -> list[str]:
    """Give the signals that the command has told of."""
    return [name for line in lines for name in re.findall(r"heard (\w+)", line)]


def test_ctrl_c_ends_a_command_that_lets_it() -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); {WAIT}"
    with on_terminal([*RUN, "--", *python(code)]) as terminal:
        terminal.until(lambda lines: "ready" in lines)
        terminal.type("\x03")
        assert terminal.until_ended() == 128 + signal.SIGINT
    assert any("ended by SIGINT after" in line for line in terminal.text)


def test_second_ctrl_c_ends_hard() -> None:
    code = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {WAIT}"
    with on_terminal([*RUN, "--", *python(code)]) as terminal:
        terminal.until(lambda lines: "ready" in lines)
        terminal.type("\x03")
        terminal.until(lambda lines: "Ctrl-C again now" in lines[-1])
        terminal.type("\x03")
        assert terminal.until_ended() == 128 + signal.SIGKILL


def test_ctrl_backslash_ends_the_command() -> None:
    with on_terminal([*RUN, "--", *python(WAIT)]) as terminal:
        terminal.until(lambda lines: "ready" in lines)
        terminal.type("\x1c")
        assert terminal.until_ended() == 128 + signal.SIGQUIT


def test_terminate_passed_on_with_a_terminal() -> None:
    with on_terminal([*RUN, "--", *python(WAIT)]) as terminal:
        terminal.until(lambda lines: "ready" in lines)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.until_ended() == 128 + signal.SIGTERM


def test_steps_aside_while_single_keys_are_read() -> None:
    """1. The block is there. 2. Keys are read: it goes. 3. No more: it comes back."""
    code = (
        "import sys, termios, tty\n"
        "before = termios.tcgetattr(0)\n"
        "input('first? ')\n"
        "tty.setcbreak(0); print('reading keys')\n"
        "sys.stdin.read(1)\n"
        "termios.tcsetattr(0, termios.TCSADRAIN, before)\n"
        "input('last? ')\n"
    )
    with on_terminal([*RUN, "--", *python(code)]) as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY and lines[0] == "first?")
        terminal.type("\n")
        terminal.until(lambda lines: lines[1] == "reading keys" and not any(lines[-4:]))
        assert terminal.emulator.margins == (0, 13)
        terminal.type("x")
        terminal.until(lambda lines: lines[-3:] == BODY and lines[2] == "last?")
        terminal.type("\n")
        assert terminal.until_ended() == 0


def test_no_block_on_a_small_terminal() -> None:
    with on_terminal([*RUN, "--", "echo", "hello"], rows=9) as terminal:
        assert terminal.until_ended() == 0
    assert "hello" in terminal.emulator.lines
    assert not any("workers  target" in line for line in terminal.text)


def test_plain_lines_on_a_dumb_terminal() -> None:
    with on_terminal([*RUN, "--", "echo", "hello"], TERM="dumb") as terminal:
        assert terminal.until_ended() == 0
    assert "\x1b" not in terminal.raw
    assert any(line.startswith("dask fleet: target 2") for line in terminal.text)


def test_no_colour_when_asked() -> None:
    """The margins and positions stay, the colours go (bold and dim are none)."""

    def colours(raw: str) -> set[str]:
        codes = re.findall(r"\x1b\[([0-9;]*)m", raw)
        return {code for text in codes for code in text.split(";") if len(code) == 2}

    seen = []
    for value in ("", "1"):
        with on_terminal([*RUN, "--", "cat"], NO_COLOR=value) as terminal:
            terminal.until(lambda lines: lines[-3:] == BODY)
            terminal.type("\x04")
            assert terminal.until_ended() == 0
            seen.append(colours(terminal.raw))
    assert seen[0]
    assert not seen[1]


def test_ascii_where_nothing_else_is_understood() -> None:
    with on_terminal([*RUN, "--", "cat"], PYTHONIOENCODING="ascii") as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY)
        terminal.type("\x04")
        assert terminal.until_ended() == 0
    assert terminal.raw.isascii()


def test_up_shows_the_block_until_ctrl_c() -> None:
    with on_terminal([*FAKE, "up"]) as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY)
        assert terminal.emulator.lines[0] == "scheduler tcp://127.0.0.1:1"
        assert terminal.emulator.lines[1] == "dashboard http://127.0.0.1:2/status"
        terminal.type("\x03")
        assert terminal.until_ended() == 0
    assert terminal.emulator.lines[3].startswith("dask fleet: closed after")


def test_ctrl_z_gives_the_terminal_back_until_we_are_continued() -> None:
    code = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "while True: print('got', input('next? '))\n"
    )
    with on_terminal(job([*RUN, "--", *python(code)])) as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY and lines[0] == "next?")
        terminal.type("\x1a")
        terminal.until(lambda lines: "[stopped]" in lines[0])
        assert terminal.emulator.margins == (0, 13)
        assert not any(terminal.emulator.lines[-4:])
        terminal.process.send_signal(signal.SIGUSR1)
        terminal.until(lambda lines: lines[-3:] == BODY)
        terminal.type("more\n")
        terminal.until(lambda lines: "got more" in lines)
        terminal.type("\x03")
        assert terminal.until_ended() == 128 + signal.SIGINT


def test_ctrl_z_where_nobody_could_continue_us() -> None:
    with on_terminal(
        [*RUN, "--", *python("print('got', input('next? '))")]
    ) as terminal:
        terminal.until(lambda lines: lines[-3:] == BODY and lines[0] == "next?")
        terminal.type("\x1a")
        terminal.until(lambda lines: lines[-3:] != BODY or "^Z" in lines[0])
        terminal.type("more\n")
        assert terminal.until_ended() == 0
