from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from examples import wordcount

SCRIPT = Path(wordcount.__file__)


@given(st.text())
def test_every_letter_is_in_exactly_one_word(text: str) -> None:
    letters = "".join(wordcount.LETTERS.findall(text))
    assert "".join(wordcount.words(text)) == letters.casefold()


@given(st.lists(st.text(st.characters(categories=["Ll"]), min_size=1)))
def test_plain_words_are_counted_as_they_stand(words: list[str]) -> None:
    folded = [word.casefold() for word in words]
    assert wordcount.count_words(" ".join(words)) == Counter(folded)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("1 2_3 __", []),
        ("snake_case", ["snake", "case"]),
        ("CamelCase HTTPServer", ["camel", "case", "http", "server"]),
        ("getURL", ["get", "url"]),
        ("x1y", ["x", "y"]),
    ],
)
def test_names_are_split_into_their_words(text: str, words: list[str]) -> None:
    assert list(wordcount.words(text)) == words


def test_pairs_and_files_count_what_they_say() -> None:
    assert wordcount.count_pairs("a b a b") == Counter({"a b": 2, "b a": 1})
    assert wordcount.count_pairs("alone") == Counter()
    assert wordcount.count_files("a b a b") == Counter({"a": 1, "b": 1})


def test_files_are_found_in_a_fixed_order_and_without_packages(tmp_path: Path) -> None:
    for name in ("b.py", "a/c.py", "a.txt", "site-packages/d.py", "e.py/f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere")

    found = wordcount.find_files(tmp_path)

    assert found == [str(tmp_path / "a/c.py"), str(tmp_path / "b.py")]


@pytest.mark.parametrize("parts", [1, 2, 5, 100])
def test_parts_hold_every_file_once(tmp_path: Path, parts: int) -> None:
    paths = [str(tmp_path / f"{number}.py") for number in range(10)]
    for number, path in enumerate(paths):
        Path(path).write_bytes(b"x" * 100 * number)

    split = wordcount.split_files(paths, parts)

    assert sorted(path for part in split for path in part) == paths
    assert len(split) == min(parts, 10)
    sizes = [sum(os.path.getsize(path) for path in part) for part in split]
    assert max(sizes) <= sum(sizes) / parts + 900


def test_odd_bytes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("größe \0 größe".encode("latin-1"))
    assert wordcount.count_all([str(path)], wordcount.count_words) == Counter(
        {"gr": 2, "e": 2}
    )


def test_a_difference_is_told_in_either_direction() -> None:
    more, less = Counter(a=2, b=1), Counter(a=2)
    assert wordcount.difference(more, more) is None
    assert wordcount.difference(more, less) == (
        "1 entry differs; 'b' is 1 on the cluster and 0 here"
    )
    assert wordcount.difference(less, more) == (
        "1 entry differs; 'b' is 0 on the cluster and 1 here"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tasks", "0"], "--tasks must be at least 1, not 0"),
        (["--pause", "-1"], "--pause must be a number of seconds, not -1.0"),
        (["--pause", "nan"], "--pause must be a number of seconds, not nan"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        wordcount.main(arguments)
    assert said in capsys.readouterr().err


def test_a_folder_without_text_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wordcount.main([str(tmp_path)]) == 2
    assert f"no file *.py below {tmp_path}" in capsys.readouterr().err


@pytest.mark.integration
def test_runs_on_the_cluster_that_the_environment_names(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.py").write_text(f"only once {number}\n")
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address=":0",
    ) as cluster:
        done = subprocess.run(
            [sys.executable, SCRIPT, tmp_path, "--pause", "0", "--tasks", "3"],
            env={**os.environ, "DASK_SCHEDULER_ADDRESS": cluster.scheduler_address},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert "5 files, 0.0 MB, 3 tasks a burst" in done.stdout
    assert "burst 1 of 3: 10 in all; most often once 5, only 5" in done.stdout
    assert done.stdout.rstrip().endswith("all 3 bursts are right")


def test_a_wrong_count_ends_with_1(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "a.py"
    path.write_text("word word\n")
    monkeypatch.setattr(wordcount, "count_on", lambda *_: Counter(word=3))

    code = wordcount.run(Mock(spec=Client), [str(path)], tasks=1, pause=0)

    assert code == 1
    said = "WRONG: 1 entry differs; 'word' is 3 on the cluster and 2 here"
    assert said in capsys.readouterr().out
