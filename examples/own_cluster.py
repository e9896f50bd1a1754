"""A cluster of one's own: workers are `dask worker` processes on this machine.

Only `scale_up` is written. Manual and adaptive scaling, replacement of workers that
die, and an end that leaves nothing behind come with the class `Cluster`.

    python examples/own_cluster.py
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time

import dask

from dask_fleet import Cluster


class ProcessCluster(Cluster):
    """A scheduler in this process, and workers that are processes."""

    processes: tuple[subprocess.Popen[bytes], ...] = ()

    async def scale_up(self, workers: list[str]) -> None:
        command = [sys.executable, "-m", "dask", "worker", self.scheduler_address]
        options = ["--nthreads=1", "--no-nanny", "--no-dashboard"]
        # A worker that does not find its scheduler ends by itself.
        options += ["--death-timeout=8"]
        quiet = {**os.environ, "DASK_LOGGING__DISTRIBUTED": "warning"}
        started = [
            subprocess.Popen([*command, *options, "--name", name], env=quiet)
            for name in workers
        ]
        running = [one for one in self.processes if one.poll() is None]
        self.processes = (*running, *started)


def slow(number: int) -> int:
    time.sleep(0.2)
    return number


def main() -> None:
    logging.getLogger("distributed").setLevel(logging.WARNING)
    # Nobody tells this cluster that a process has ended; the scheduler misses the
    # worker, and after this time it is replaced.
    patience = dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"})
    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        patience,
        ProcessCluster(n_workers=1, scheduler_options=local) as cluster,
        cluster.get_client() as client,
    ):
        print(f"begins with {len(cluster.observed)} worker", flush=True)

        cluster.scale(3)
        cluster.wait_for_workers()
        print(f"scale(3): {sorted(cluster.observed)}", flush=True)

        cluster.scale(2)
        cluster.wait_for_workers()
        before = cluster.observed
        print(f"scale(2): {sorted(before)}", flush=True)

        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        while len(cluster.observed) < 2 or cluster.observed == before:
            time.sleep(0.1)
        print(f"one was killed and replaced: {sorted(cluster.observed)}", flush=True)

        cluster.adapt(minimum=0, maximum=3, interval="200ms", wait_count=3)
        total = sum(client.gather(client.map(slow, range(40))))
        print(f"adapt(0, 3): 40 tasks done, the sum is {total}", flush=True)
        cluster.wait_for_workers(0, exactly=True)
        print("adapt(0, 3): nothing to do, no worker left", flush=True)
        print(cluster.explain(), flush=True)
    print("closed", flush=True)


if __name__ == "__main__":
    main()
