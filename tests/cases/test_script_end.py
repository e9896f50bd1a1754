"""R23, R36: scripts that just end, and scripts that forgot the main guard."""

from __future__ import annotations

import os
import textwrap

import pytest

from tests.cases.harness import bound, run_script

MODULE, _, CLASS = os.environ.get(
    "FLEET_CASES_CLASS", "dask_fleet:LocalCluster"
).partition(":")

HEAD = f"""\
import time
from {MODULE} import {CLASS} as LocalCluster
from distributed import Client


def main():
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    client = Client(cluster)
    assert client.submit(abs, -1).result() == 1
"""

TAIL = """

if __name__ == "__main__":
    main()
"""

ENDS = {
    "idle": "",
    "tasks running": """
        futures = client.map(time.sleep, [30.0, 30.1, 30.2, 30.3])
        time.sleep(0.5)
        """,
    "adapt just called": "cluster.adapt(minimum=0, maximum=4)",
    "scale just called": "cluster.scale(4)",
    "variable deleted": "del cluster",
}


@pytest.mark.parametrize("end", ENDS)
def test_r23_script_just_ends(end: str) -> None:
    """Without close the script ends well and silently, and takes its workers along."""
    body = textwrap.indent(textwrap.dedent(ENDS[end]), "    ")
    outcome = run_script(HEAD + body + TAIL)
    outcome.quiet()
    assert outcome.seconds <= bound(10)


UNGUARDED = f"""\
{{first}}
from {MODULE} import {CLASS} as LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
client = cluster.get_client()
print(client.submit(abs, -7).result())
cluster.close()
"""

SPAWN = """
import dask
dask.config.set({"distributed.worker.multiprocessing-method": "spawn"})
"""


def test_r36_no_main_guard_spawned() -> None:
    """Spawned workers run the script again: one short hint and a failure, at once."""
    outcome = run_script(UNGUARDED.format(first=SPAWN))
    assert outcome.code != 0
    assert '__name__ == "__main__"' in outcome.err.replace("'", '"')
    assert len(outcome.err_lines) <= 10
    assert outcome.seconds <= bound(10)
    assert outcome.left == ()


def test_r36_no_main_guard_by_default() -> None:
    """By default the same hint, or no trouble where workers do not read the script."""
    outcome = run_script(UNGUARDED.format(first=""))
    if outcome.code == 0:
        assert outcome.out.splitlines() == ["7"]
        assert outcome.err == ""
    else:
        assert '__name__ == "__main__"' in outcome.err.replace("'", '"')
        assert len(outcome.err_lines) <= 10
    assert outcome.seconds <= bound(10)
    assert outcome.left == ()
