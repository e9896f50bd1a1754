"""The scheduler's stream of joining and leaving workers, and what if it ends.

Whoever reads the stream must notice its end: otherwise the picture of the workers
would silently stay as it was. So the end is an event like any other: the stream is
opened again if the same scheduler still answers; otherwise the reason is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from distributed.comm.core import Comm
from distributed.core import rpc
from distributed.objects import SchedulerInfo

from dask_fleet.cluster.arguments import described

#: A broken call is made again so often; the seconds before the first of these tries;
#: each further one waits twice as long, but not longer than this.
RETRIES = 4
FIRST_WAIT = 0.1
LONGEST_WAIT = 1.0


class SchedulerGone(RuntimeError):
    """The scheduler does not answer any more, or another one answers in its place."""


class SchedulerStream:
    """Keeps a copy of the scheduler's identity up to date.

    Parameters
    ----------
    comm
        Connection to the scheduler.
    changed
        Told whenever workers have joined or left, or the stream was opened again.
    reconnected
        Told when a broken stream was opened again.
    is_gone
        Says why the scheduler is known to be gone, if it is; spares useless tries.
    patience
        Seconds in which a broken stream must be open again; after that the scheduler
        counts as gone.
    """

    def __init__(
        self,
        comm: rpc,
        changed: Callable[[], None],
        reconnected: Callable[[], None],
        is_gone: Callable[[], str | None],
        patience: float,
    ) -> None:
        self._comm = comm
        self._patience = patience
        self._changed = changed
        self._reconnected = reconnected
        self._is_gone = is_gone
        self._stream: Comm | None = None
        self.info: SchedulerInfo = SchedulerInfo({"workers": {}})
        #: The stream is open, so ``info`` is the truth.
        self.is_open = False

    async def open(self) -> None:
        """Open the stream and fetch the present state.

        Raises
        ------
        SchedulerGone
            If another scheduler answers than before.
        OSError
            If none answers.
        """
        stream = await self._comm.live_comm()
        stream.name = "fleet: worker status"
        await stream.write({"op": "subscribe_worker_status"})
        info = SchedulerInfo(await stream.read())
        before = self.info.get("id")
        if before is not None and before != info["id"]:
            await stream.close()
            raise SchedulerGone(f"another scheduler answers at {info['address']}")
        self._stream = stream
        self.info = info
        self.is_open = True

    async def follow(self) -> str:
        """Follow the stream until the scheduler is gone; return why.

        From then on no worker is seen.
        """
        while True:
            why = await self._read()
            self.is_open = False
            self._changed()
            try:
                await self._open_again(why)
            except SchedulerGone as error:
                self.info["workers"] = {}
                return described(error)
            self._reconnected()
            self._changed()

    async def _read(self) -> str:
        """Read until the stream ends; return why it ended."""
        assert self._stream is not None
        while True:
            try:
                messages = await self._stream.read()
            except OSError as error:
                return described(error)
            for operation, message in messages:
                self._take(operation, message)
            self._changed()

    def _take(self, operation: str, message: Any) -> None:
        workers: dict[str, Any] = self.info["workers"]
        if operation == "add":
            workers.update(message.pop("workers"))
            self.info.update(message)
        elif operation == "remove":
            # Leaving twice is no error: a stream opened again may repeat itself.
            workers.pop(message, None)
        else:
            raise ValueError(f"unknown message of the scheduler: {operation!r}")

    async def _open_again(self, why: str) -> None:
        end = monotonic() + self._patience
        wait = FIRST_WAIT
        while True:
            gone = self._is_gone()
            if gone is not None:
                raise SchedulerGone(gone)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
            try:
                await asyncio.wait_for(self.open(), max(0.0, end - monotonic()))
            except asyncio.TimeoutError:
                within = f"no connection within {self._patience:g} s"
                raise SchedulerGone(
                    f"the scheduler does not answer: {within} ({why})"
                ) from None
            except OSError as error:
                why = described(error)
            else:
                return

    async def close(self) -> None:
        """Close the stream; from now on no worker is seen."""
        self.is_open = False
        self.info["workers"] = {}
        if self._stream is not None:
            await self._stream.close()
