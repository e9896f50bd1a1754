"""A Dask worker in a warm child: the child's side."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dask.config
from dask.multiprocessing import default_initializer
from distributed import Worker
from distributed.compatibility import asyncio_run
from distributed.config import get_loop_factory
from distributed.core import Status

from dask_fleet.processes.channel import Channel
from dask_fleet.processes.failure import Failure

_CLOSING = (Status.closing, Status.closed)


@dataclass(frozen=True)
class WorkerMade:
    """The worker object exists; this is the directory that it works in."""

    directory: str


@dataclass(frozen=True)
class WorkerStarted:
    """The worker is registered with its scheduler."""

    address: str
    directory: str


@dataclass(frozen=True)
class StopWorker:
    """Close the worker.

    Parameters
    ----------
    timeout
        Seconds for the worker to close.
    executor_wait
        Whether to wait for the threads of running tasks.
    reason
        For the log.
    """

    timeout: float
    executor_wait: bool
    reason: str


def run_worker(
    channel: socket.socket,
    factory: Callable[[], Worker],
    config: Mapping[str, Any],
    silence_logs: int | str | None,
) -> None:
    """Run a worker from its making to its end; the target of a warm child.

    Parameters
    ----------
    channel
        The channel to the manager.
    factory
        Makes the worker.
    config
        Dask's configuration in the manager, laid over this process's own.
    silence_logs
        Level of the nanny's own logger here; none is changed if it is false.
    """
    dask.config.refresh()
    dask.config.set(config)
    default_initializer()
    logging.getLogger("distributed.worker").addFilter(_is_of_interest)
    if silence_logs:
        logging.getLogger("distributed.nanny").setLevel(silence_logs)
        # The worker does the same while it lives; what is logged after its end would
        # be shown again.
        for handler in logging.getLogger("distributed").handlers:
            handler.setLevel(silence_logs)
    has_run = asyncio_run(_run(channel, factory), loop_factory=get_loop_factory())
    if not has_run:
        sys.exit(1)


def _is_of_interest(record: logging.LogRecord) -> bool:
    """Whether a record says more than that a worker which closes stopped its pulse.

    A worker that closes cuts its own connections, also under a heartbeat, which then
    reports an error with a traceback. Nothing is wrong, and nobody asked.
    """
    return not (
        record.funcName == "heartbeat"
        and any(w.status in _CLOSING for w in Worker._instances)
    )


async def _run(sock: socket.socket, factory: Callable[[], Worker]) -> bool:
    """Run the worker; False if it could not start."""
    channel = Channel(sock)
    try:
        worker = factory()
        channel.send(WorkerMade(worker.local_directory))
        await worker
    except Exception as error:  # noqa: BLE001  -- the manager raises it
        channel.send(Failure.of(error))
        await channel.flush()
        return False
    try:
        channel.send(WorkerStarted(worker.address, worker.local_directory))
        await _until_closed(worker, channel)
    finally:
        await worker.close(nanny=False)
    return True


async def _until_closed(worker: Worker, channel: Channel) -> None:
    """Wait until the worker closes by itself or the manager wants it closed."""
    order = asyncio.create_task(_receive_order(channel))
    closed = asyncio.create_task(worker.finished())
    await asyncio.wait((order, closed), return_when=asyncio.FIRST_COMPLETED)
    if not order.done():
        order.cancel()
        return
    stop = order.result()
    # Whoever ends a worker knows that the tasks it runs are cut off.
    logging.getLogger("distributed.worker.state_machine").setLevel(logging.ERROR)
    await worker.close(
        nanny=False,
        timeout=stop.timeout,
        executor_wait=stop.executor_wait,
        reason=stop.reason,
    )
    await closed


async def _receive_order(channel: Channel) -> StopWorker:
    try:
        order = await channel.receive()
    except EOFError:
        # The manager is gone. So is the fork server in a moment, and this process
        # with it; there is nobody left to close for.
        os._exit(1)
    assert isinstance(order, StopWorker)
    return order
