"""One cluster on trial: waiting for what has to come, and saying what did not."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import psutil
from distributed import Client

from dask_fleet.cluster import Cluster
from dask_fleet.cluster.arguments import described
from dask_fleet.core import Cause


class ContractBroken(AssertionError):
    """A clause of the contract does not hold.

    Parameters
    ----------
    clause
        Its name.
    problem
        What was seen, and what should be.
    """

    def __init__(self, clause: str, problem: str) -> None:
        super().__init__(f"clause {clause!r} is broken: {problem}")
        self.clause = clause


class Trial:
    """A cluster that is being checked.

    Parameters
    ----------
    cluster
        Synchronous, and open.
    timeout
        Seconds that anything may take.

    Attributes
    ----------
    clause
        Name of the clause that is being checked, for the messages.
    """

    def __init__(self, cluster: Any, timeout: float) -> None:
        self.cluster: Cluster = cluster
        self.timeout = timeout
        self.clause = ""
        self._processes: set[psutil.Process] = set()

    @property
    def size(self) -> int:
        """How many workers one instance holds."""
        return self.cluster.workers_per_instance

    @property
    def known(self) -> set[str]:
        """Every name that scale_up was ever given."""
        events = self.cluster.events
        starts = (one.workers for one in events if one.cause is Cause.STARTING)
        return set().union(*starts)

    def broken(self, problem: str) -> NoReturn:
        """Say that the present clause does not hold."""
        raise ContractBroken(self.clause, problem)

    def must(self, holds: bool, problem: str) -> None:
        """Say what is wrong unless something holds."""
        if not holds:
            self.broken(problem)

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for something that the cluster notices.

        Parameters
        ----------
        true
            Whether it is so; looked at whenever something has changed.
        what
            What was waited for, for the message.
        """
        cluster = self.cluster

        def look() -> bool:
            self._look_for_strangers()
            return true()

        async def wait() -> None:
            await asyncio.wait_for(cluster._control.pulse.until(look), self.timeout)

        try:
            cluster.sync(wait)
        except asyncio.TimeoutError:
            self.broken(f"not within {self.timeout:g} s: {what}\n{cluster.explain()}")

    def _look_for_strangers(self) -> None:
        """A worker under a name of its own would never count as the one asked for."""
        known = self.known
        strangers = self.cluster.observed - known
        if strangers:
            raise ContractBroken(
                "names",
                f"the scheduler sees {sorted(strangers)}, which scale_up was never "
                f"given; it was given {sorted(known)}. The name has to reach the "
                "worker (dask worker --name NAME)",
            )

    def scale(self, workers: int) -> set[str]:
        """Scale, wait until it is done, and return the names that are there."""
        self.cluster.scale(workers)
        return self.settle(workers)

    def settle(self, target: int) -> set[str]:
        """Wait for a number of workers, in whole instances; return their names."""
        cluster = self.cluster
        wanted = math.ceil(target / self.size) * self.size

        def settled() -> bool:
            state = cluster.state
            self.must(
                state.health != "failed" or state.observed == wanted,
                f"no worker can be started: {state.last}",
            )
            return len(cluster.plan) == wanted and cluster.plan == cluster.observed

        self.until(settled, f"exactly {wanted} worker(s), planned and observed")
        return cluster.observed

    # -- where workers live --------------------------------------------------------

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of the cluster."""
        with Client(self.cluster, set_as_default=False) as client:
            yield client

    def note_processes(self, client: Client) -> dict[str, int]:
        """Remember the workers' processes; return those of this machine, by address.

        Workers that live in this very process are left out.
        """
        # One that is about to leave may not answer any more.
        pids = client.run(os.getpid, on_error="ignore")
        hosts = client.run(socket.gethostname, on_error="ignore")
        here = {
            address: pid
            for address, pid in pids.items()
            if hosts.get(address) == socket.gethostname() and pid != os.getpid()
        }
        self._processes |= {
            psutil.Process(pid) for pid in here.values() if psutil.pid_exists(pid)
        }
        return here

    def addresses(self) -> dict[str, str]:
        """The address of each worker, by name."""
        workers = self.cluster.scheduler_info["workers"]
        return {str(info["name"]): address for address, info in workers.items()}

    def kill(self, name: str) -> None:
        """End a worker behind the cluster's back, wherever it lives."""
        address = self.addresses()[name]
        with self.client() as client:
            pid = self.note_processes(client).get(address)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            elif client.run(os.getpid, workers=[address])[address] == os.getpid():
                client.run(_close_soon, workers=[address], on_error="ignore")
            else:
                client.run(os._exit, 1, workers=[address], wait=False)

    def left(self, leftovers: Callable[[], Collection[object]] | None) -> None:
        """Wait until nothing is left of what was started.

        Parameters
        ----------
        leftovers
            Gives what is left, as far as the author can tell.
        """
        end = time.monotonic() + self.timeout
        _, alive = psutil.wait_procs(list(self._processes), self.timeout)
        self.must(not alive, f"worker processes are left: {alive}")
        while leftovers is not None and (found := leftovers()):
            if time.monotonic() > end:
                self.broken(f"something is left: {found!r}")
            time.sleep(0.05)

    def raises(self, call: Callable[[], object], kind: type[Exception]) -> str:
        """Return what a call raises, in words; it must be of a kind."""
        try:
            call()
        except kind as error:
            return described(error)
        except Exception as error:  # noqa: BLE001  # it is told in our own words
            self.broken(f"{kind.__name__} should be raised; got {error!r}")
        return self.broken(f"{kind.__name__} should be raised, and nothing was")


async def _close_soon(dask_worker: Any) -> None:
    """Let a worker of this process end."""
    dask_worker.loop.add_callback(
        dask_worker.close, timeout=1, executor_wait=False, nanny=False
    )
