from __future__ import annotations

import ast
import inspect
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dask_fleet.testing.contract import check_cluster
from examples import own_cluster
from tests.cluster.support import LIMIT, left_of, marked, outcome

pytestmark = pytest.mark.integration

SCRIPT = Path(own_cluster.__file__)

#: Starts workers, keeps them busy, and never ends by itself.
MANAGER = """
import sys, time
from examples.own_cluster import ProcessCluster

def running(dask_worker):
    return list(dask_worker.active_keys)

if __name__ == "__main__":
    wait, tasks = sys.argv[1] == "wait", int(sys.argv[2])
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    cluster = ProcessCluster(n_workers=2, scheduler_options=local, wait=wait)
    client = cluster.get_client()
    busy = client.map(time.sleep, [600 + i for i in range(tasks)])
    while sum(map(len, client.run(running).values())) < tasks:
        time.sleep(0.01)
    while not cluster.requested:
        time.sleep(0.01)
    print("ready", flush=True)
    if sys.argv[3] == "close":
        cluster.close()
    else:
        sys.stdin.read()
"""


def test_the_class_is_short_and_has_only_scale_up() -> None:
    (node,) = ast.parse(inspect.getsource(own_cluster.ProcessCluster)).body
    assert isinstance(node, ast.ClassDef)
    assert node.end_lineno is not None
    assert node.end_lineno - node.lineno + 1 < 25
    functions = [one.name for one in node.body if isinstance(one, ast.AsyncFunctionDef)]
    assert functions == ["scale_up"]


def test_main_scales_by_hand_and_by_itself_replaces_and_leaves_nothing() -> None:
    done, left = outcome([str(SCRIPT)])
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()][:6] == [
        "begins with 1 worker",
        "scale(3)",
        "scale(2)",
        "one was killed and replaced",
        "adapt(0, 3)",
        "adapt(0, 3)",
    ]
    assert "40 tasks done, the sum is 780" in done.stdout
    assert done.stdout.splitlines()[-1] == "closed"
    assert left == []


@pytest.mark.parametrize("end", ["close", "kill"])
@pytest.mark.parametrize(
    ("wait", "tasks", "within"),
    [
        ("wait", "0", 10),
        # A worker of distributed waits so long for its threads before it ends.
        ("wait", "2", 40),
        # A worker that is still starting looks for its scheduler for a while.
        ("start", "0", 20),
    ],
)
def test_nothing_is_left_after_close_and_after_the_managers_death(
    tmp_path: Path, wait: str, tasks: str, within: float, end: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(MANAGER)
    with marked() as (env, token):
        command = [sys.executable, str(script), wait, tasks, end]
        with subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as manager:
            assert manager.stdout is not None
            assert manager.stdout.readline() == "ready\n"
            if end == "kill":
                manager.kill()
            assert manager.wait(LIMIT) == (-signal.SIGKILL if end == "kill" else 0)
        assert left_of(token, within) == []


def test_it_keeps_the_contract() -> None:
    made: list[own_cluster.ProcessCluster] = []

    def make() -> own_cluster.ProcessCluster:
        local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        made.append(own_cluster.ProcessCluster(scheduler_options=local))
        return made[-1]

    checked = check_cluster(
        make,
        leftovers=lambda: [
            process.pid
            for cluster in made
            for process in cluster.processes
            if process.poll() is None
        ],
    )
    assert {"names", "replaced", "adaptive", "close during start"} <= set(checked)
