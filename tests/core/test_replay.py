"""Decisions that were recorded are made again, and come out the same."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from dask_fleet.core import Settings
from dask_fleet.core.record import line, read
from dask_fleet.core.replay import main, replay
from dask_fleet.testing.fates import UNRULY, Fate
from dask_fleet.testing.simulated import World

RECORDED = sorted(Path(__file__).parent.joinpath("recorded").glob("*.jsonl"))


def recorded_life(seed: int, size: int) -> list[str]:
    """Live through all sorts of things; return every decision as a line."""
    lines: list[str] = []
    here = World(
        UNRULY,
        Settings(workers_per_instance=size),
        luck=Random(seed),
        watch=lambda facts, decision: lines.append(line(facts, decision)),
    )
    here.fates.extend([Fate.QUOTA, Fate.DIES_BEFORE, Fate.DIES_AT_BIRTH, Fate.SLOW])
    for target in (3, 8, 2):
        here.scale(target)
        here.run(20.0)
    here.adapt(0, 4, calm=3.0)
    here.want(0)
    here.run(10.0)
    here.close()
    here.settle()
    return lines


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_decisions_are_made_again(file: Path) -> None:
    replayed = list(replay(file.read_text(encoding="utf-8").splitlines()))
    assert replayed
    assert [one.differences for one in replayed] == [[]] * len(replayed)


@pytest.mark.parametrize("size", [1, 3])
def test_every_decision_of_a_life_survives_the_form(size: int) -> None:
    for text in recorded_life(7, size):
        facts, decision = read(text)
        assert line(facts, decision) == text


def test_a_changed_decision_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(recorded_life(1, 1)[0])
    content["decision"]["allowed"] = 17
    file = tmp_path / "changed.jsonl"
    file.write_text(json.dumps(content) + "\n", encoding="utf-8")
    assert main([str(file)]) == 1
    assert "allowed: recorded 17, now 3" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 0}', '{"version": 1}'])
def test_what_is_no_record_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_text(text, encoding="utf-8")
    assert main([str(file)]) == 2
    assert "line 1" in capsys.readouterr().err
