"""The contract that every kind of cluster keeps, checked clause by clause."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import dask.config
from distributed.core import Status

from dask_fleet.cluster import ClosedError, Cluster, StartError, WorkerReport
from dask_fleet.cluster.arguments import described
from dask_fleet.testing.trial import ContractBroken, Trial

__all__ = ["ContractBroken", "Faults", "check_cluster"]

#: While a cluster is checked, failures are overcome and noticed quickly.
_IMPATIENT = {
    "fleet.patience.first-pause": "100ms",
    "fleet.patience.infancy": "0s",
    "distributed.deploy.lost-worker-timeout": "1s",
}

#: Why starts are refused on purpose.
_WORDS = "refused on purpose, to check the contract"


@dataclass(frozen=True, slots=True)
class Faults:
    """Ways to let things go wrong on purpose; each may be left out.

    Each is called with the cluster, from the thread that runs the check.

    Parameters
    ----------
    refuse
        ``refuse(cluster, words)``: from now on starts are refused with these words;
        with ``None`` they are accepted again.
    vanish
        ``vanish(cluster, name)``: end the instance of this worker, without telling the
        cluster. Without it, the worker's process is killed.
    slow
        ``slow(cluster, seconds)``: from now on accepted starts take so long before
        they begin.
    """

    refuse: Callable[[Any, str | None], object] | None = None
    vanish: Callable[[Any, str], object] | None = None
    slow: Callable[[Any, float], object] | None = None


def check_cluster(
    make: Callable[[], Cluster],
    *,
    faults: Faults | None = None,
    leftovers: Callable[[], Collection[object]] | None = None,
    timeout: float = 60.0,
) -> tuple[str, ...]:
    """Check that a kind of cluster keeps the contract.

    It scales up and down, lets workers run tasks, hold data, leave and die, adapts,
    and closes, with up to three instances at a time. Call it from a test; no event
    loop may be running in its thread.

    Parameters
    ----------
    make
        Makes a cluster: open, synchronous (not ``asynchronous=True``), with any number
        of workers. Called twice.
    faults
        Ways to let things go wrong; clauses that need one which is not given are left
        out.
    leftovers
        Tells what is left, on the side of the resource manager, of the clusters that
        were made: processes, jobs, pods. Looked at after they were closed. Without it,
        only processes on this machine are looked for.
    timeout
        Seconds that any one step may take; a start, for example.

    Returns
    -------
    tuple of str
        The clauses that were checked.

    Raises
    ------
    ContractBroken
        If a clause does not hold; the message names the clause, what was seen and what
        should be.

    Examples
    --------
    >>> from dask_fleet.testing.fake_manager import FakeCluster
    >>> "names" in check_cluster(FakeCluster)
    True
    """
    faults = faults or Faults()
    checked = []
    with dask.config.set(_IMPATIENT):
        trial = Trial(None, timeout)
        trial.clause = "opens"
        made = trial.cluster = _opened(trial, make)
        try:
            for name, clause in _CLAUSES.items():
                trial.clause = name
                if clause(trial, faults):
                    checked.append(name)
            trial.clause = "close"
            _check_close(trial, leftovers)
        finally:
            made.close()
        trial.clause = "close during start"
        _check_close_during_start(trial, make, leftovers)
    return ("opens", *checked, "close", "close during start")


def _opened(trial: Trial, make: Callable[[], Cluster]) -> Cluster:
    made = make()
    trial.must(
        isinstance(made, Cluster),
        f"make() must give a dask_fleet.Cluster; got {made!r}",
    )
    trial.must(
        not made.asynchronous,
        "make() must give a synchronous cluster, without asynchronous=True",
    )
    trial.must(
        made.status is Status.running,
        f"a cluster that was made must be running; it is {made.status.name}",
    )
    return made


def _check_hooks(trial: Trial, faults: Faults) -> bool:
    kind = type(trial.cluster)
    trial.must(
        kind.scale_up is not Cluster.scale_up,
        "a cluster must have: async def scale_up(self, workers: list[str])",
    )
    hooks = ("scale_up", "scale_down", "poll", "adaptive_target", "workers_to_close")
    for hook in hooks:
        trial.must(
            inspect.iscoroutinefunction(getattr(kind, hook)),
            f"{hook} must be a coroutine function: async def {hook}(self, ...)",
        )
    return True


def _check_names(trial: Trial, faults: Faults) -> bool:
    names = trial.scale(2 * trial.size)
    trial.must(
        trial.cluster.requested == names,
        f"requested is {sorted(trial.cluster.requested)}, observed {sorted(names)}",
    )
    return True


def _check_work(trial: Trial, faults: Faults) -> bool:
    with trial.client() as client:
        for name, address in trial.addresses().items():
            future = client.submit(pow, 2, 5, workers=[address], pure=False)
            trial.must(
                future.result(trial.timeout) == 32,
                f"worker {name!r} does not compute",
            )
    return True


def _check_instances(trial: Trial, faults: Faults) -> bool:
    """A target that is no multiple of an instance is rounded up to whole ones."""
    if trial.size == 1:
        return False
    trial.scale(trial.size + 1)
    trial.scale(trial.size)
    trial.scale(2 * trial.size)
    return True


def _check_down(trial: Trial, faults: Faults) -> bool:
    """Those who leave were there, and leave no data behind."""
    before = trial.settle(2 * trial.size)
    with trial.client() as client:
        trial.note_processes(client)
        held = [
            client.scatter(name, workers=[address], hash=False)
            for name, address in trial.addresses().items()
        ]
        after = trial.scale(trial.size)
        kept = client.gather(held, errors="skip")
    trial.must(after < before, f"of {sorted(before)} remained {sorted(after)}")
    trial.must(
        sorted(kept) == sorted(before),
        f"results of {sorted(before.difference(kept))} were lost",
    )
    return True


def _check_gone(trial: Trial, faults: Faults) -> bool:
    """A name that is gone, or was never there, is no error."""
    stay = trial.settle(trial.size)
    gone = sorted(trial.known - stay)
    for names in ([gone[0]], gone, gone, ["no-such-worker"], []):
        _scale_down(trial, names)
    trial.must(
        trial.settle(trial.size) == stay,
        "scale_down of workers that are gone must leave the others alone",
    )
    return True


def _scale_down(trial: Trial, names: list[str]) -> None:
    cluster = trial.cluster
    try:
        cluster.sync(cluster.scale_down, list(names))
    except Exception as error:  # noqa: BLE001  # it is told in our own words
        trial.broken(
            f"scale_down({names!r}) of workers that are gone must be no error; "
            f"got {described(error)}"
        )


def _check_never_twice(trial: Trial, faults: Faults) -> bool:
    """A name is never given to a second worker."""
    old, known = trial.settle(trial.size), trial.known
    new = trial.scale(2 * trial.size) - old
    trial.must(not new & known, f"names were given twice: {sorted(new & known)}")
    return True


def _check_withdrawn(trial: Trial, faults: Faults) -> bool:
    """Starts under way are given up when they are not needed any more."""
    trial.cluster.scale(3 * trial.size)
    trial.scale(2 * trial.size)
    return True


def _check_replaced(trial: Trial, faults: Faults) -> bool:
    cluster = trial.cluster
    before = trial.addresses()
    victim = sorted(before)[0]
    if faults.vanish is None:
        trial.kill(victim)
    else:
        faults.vanish(cluster, victim)
    trial.until(
        lambda: trial.addresses().get(victim) != before[victim],
        f"the end of worker {victim!r} is noticed",
    )
    trial.settle(2 * trial.size)
    return True


def _check_refused(trial: Trial, faults: Faults) -> bool:
    """Refused starts are told of in the resource manager's words, and tried again."""
    if faults.refuse is None:
        return False
    cluster, before = trial.cluster, trial.settle(2 * trial.size)
    faults.refuse(cluster, _WORDS)
    cluster.scale(3 * trial.size)
    said = trial.raises(
        lambda: cluster.wait_for_workers(timeout=trial.timeout), StartError
    )
    for place, text in {"StartError": said, "explain()": cluster.explain()}.items():
        trial.must(
            _WORDS in text,
            f"{place} must have the resource manager's words {_WORDS!r}; got {text}",
        )
    trial.must(
        cluster.observed == before, "workers that run must outlive a refused start"
    )
    faults.refuse(cluster, None)
    trial.must(
        before < trial.scale(3 * trial.size), "workers that run must not be replaced"
    )
    trial.scale(2 * trial.size)
    return True


def _check_slow(trial: Trial, faults: Faults) -> bool:
    """Accepted is not arrived; what has not arrived can still be given up."""
    if faults.slow is None:
        return False
    cluster, before = trial.cluster, trial.settle(2 * trial.size)
    faults.slow(cluster, trial.timeout)
    try:
        cluster.scale(3 * trial.size)
        trial.until(
            lambda: len(cluster.requested) == 3 * trial.size,
            "scale_up returns once the start is accepted, not once the worker runs",
        )
        trial.must(cluster.observed == before, "slow(...) made no start slow")
        trial.must(
            trial.scale(2 * trial.size) == before,
            "the start that had not arrived must be the one that is given up",
        )
    finally:
        faults.slow(cluster, 0)
    return True


def _check_poll(trial: Trial, faults: Faults) -> bool:
    cluster = trial.cluster
    if type(cluster).poll is Cluster.poll:
        return False
    there = trial.settle(2 * trial.size)
    gone = trial.known - there
    answer = cluster.sync(cluster.poll)
    for name, report in answer.items():
        trial.must(
            isinstance(report, WorkerReport),
            f"poll must give a WorkerReport for each name; got {report!r} of {name!r}",
        )
        trial.must(
            name not in there or report.state != "gone",
            f"poll says that {name!r} is gone, and it is with the scheduler",
        )
        trial.must(
            name not in gone or report.state == "gone",
            f"poll says that {name!r} is {report.state}, and it has left",
        )
    return True


def _check_adaptive(trial: Trial, faults: Faults) -> bool:
    """A target function is followed within bounds, until it is stopped."""
    cluster, size = trial.cluster, trial.size
    wanted = [size]
    handle = cluster.adapt(
        minimum=0,
        maximum=2 * size,
        interval="50ms",
        wait_count=1,
        target=lambda: wanted[0],
    )
    trial.must(cluster.mode == "adaptive", f"adapt: the mode is {cluster.mode!r}")
    trial.settle(size)
    wanted[0] = 100 * size
    trial.settle(2 * size)
    wanted[0] = 0
    trial.settle(0)
    cluster.scale(size)
    trial.must(
        (cluster.mode, handle.state) == ("manual", "stopped"),
        f"scale ends adapt: the mode is {cluster.mode!r}, the handle {handle.state!r}",
    )
    trial.settle(size)
    return True


def _check_default_policy(trial: Trial, faults: Faults) -> bool:
    """Work brings workers, and without work they leave."""
    cluster = trial.cluster
    handle = cluster.adapt(
        minimum=0, maximum=trial.size, interval="100ms", wait_count=3
    )
    trial.settle(0)
    with trial.client() as client:
        result = client.submit(pow, 2, 6, pure=False).result(trial.timeout)
        trial.must(result == 64, f"a worker computed {result}")
    trial.settle(0)
    handle.stop()
    trial.scale(trial.size)
    return True


def _check_close(
    trial: Trial, leftovers: Callable[[], Collection[object]] | None
) -> None:
    cluster = trial.cluster
    with trial.client() as client:
        trial.note_processes(client)
    cluster.close()
    _must_be_closed(trial, cluster)
    trial.left(leftovers)
    cluster.close()
    _must_be_closed(trial, cluster)
    trial.raises(lambda: cluster.scale(1), ClosedError)
    trial.raises(lambda: cluster.adapt(maximum=1), ClosedError)


def _must_be_closed(trial: Trial, cluster: Cluster) -> None:
    trial.must(
        cluster.status is Status.closed,
        f"after close() the status is {cluster.status.name}",
    )
    for what in ("plan", "requested", "observed"):
        names = getattr(cluster, what)
        trial.must(not names, f"after close(), {what} still has {sorted(names)}")


def _check_close_during_start(
    trial: Trial,
    make: Callable[[], Cluster],
    leftovers: Callable[[], Collection[object]] | None,
) -> None:
    cluster = _opened(trial, make)
    cluster.scale(len(cluster.observed) + 2 * trial.size)
    cluster.close()
    _must_be_closed(trial, cluster)
    trial.left(leftovers)


_CLAUSES: dict[str, Callable[[Trial, Faults], bool]] = {
    "hooks": _check_hooks,
    "names": _check_names,
    "work": _check_work,
    "instances": _check_instances,
    "scale down": _check_down,
    "gone is no error": _check_gone,
    "never twice": _check_never_twice,
    "withdrawn": _check_withdrawn,
    "replaced": _check_replaced,
    "refused": _check_refused,
    "slow": _check_slow,
    "poll": _check_poll,
    "adaptive": _check_adaptive,
    "default policy": _check_default_policy,
}
