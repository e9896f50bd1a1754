"""Warm child processes: what the rest of dask-fleet uses."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from dask_fleet.processes.call import Result, call_and_report
from dask_fleet.processes.errors import ProcessEnded, check_main_guard
from dask_fleet.processes.failure import Failure
from dask_fleet.processes.forked import ForkedProcess
from dask_fleet.processes.launch import pack
from dask_fleet.processes.server_process import ServerProcess

T = TypeVar("T")


class _Shared:
    """A fork server for all its users: started again when it has died."""

    def __init__(self, environ: Mapping[str, str], preload: Sequence[str]) -> None:
        self.users = 0
        self._environ = environ
        self._preload = preload
        self.server = ServerProcess(environ, preload)
        #: Servers that have died, until they have been waited for.
        self._dead: list[ServerProcess] = []

    def living(self) -> ServerProcess:
        if self.server.gone is not None:
            self._dead = [one for one in self._dead if not one.ended]
            self._dead.append(self.server)
            self.server = ServerProcess(self._environ, self._preload)
        return self.server

    async def stop(self) -> None:
        for server in (self.server, *self._dead):
            await server.stop()


_Key = tuple[frozenset[tuple[str, str]], tuple[str, ...]]

#: A server belongs to one event loop, so that nothing here needs a lock. It is held by
#: its users alone: if all are forgotten, its socket is closed and it ends.
_shared: WeakKeyDictionary[
    asyncio.AbstractEventLoop, WeakValueDictionary[_Key, _Shared]
] = WeakKeyDictionary()


class ForkServer:
    """A share in a warm fork server.

    Making one starts the server and returns at once: the server imports while the
    caller goes on. All that are made on one event loop with the same arguments share
    one server process, which ends when the last of them is released. If the server
    dies, its processes are reported as ended and the next request starts another.

    Parameters
    ----------
    environ
        Environment variables that must stand before an interpreter starts, such as
        ``MALLOC_TRIM_THRESHOLD_`` or ``OMP_NUM_THREADS``. They are set in the server
        and so in its children, not in this process.
    preload
        Names of modules to import in the server, besides those of a Dask worker.

    Raises
    ------
    MainGuardError
        This process is a worker that is only just importing the main script.
    OSError
        The interpreter cannot be started.

    Examples
    --------
    >>> async def main():
    ...     server = ForkServer({"OMP_NUM_THREADS": "1"})
    ...     try:
    ...         print(await server.run(os.getenv, "OMP_NUM_THREADS"))
    ...     finally:
    ...         await server.release()
    >>> asyncio.run(main())
    1
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, preload: Iterable[str] = ()
    ) -> None:
        check_main_guard()
        environ, preload = dict(environ or {}), tuple(preload)
        key = (frozenset(environ.items()), preload)
        loop = asyncio.get_running_loop()
        of_loop = _shared.setdefault(loop, WeakValueDictionary())
        share = of_loop.get(key)
        if share is None:
            share = of_loop[key] = _Shared(environ, preload)
        share.users += 1
        self._share: _Shared | None = share
        self._forget = functools.partial(of_loop.pop, key)
        self._environ = environ

    def __repr__(self) -> str:
        state = "released" if self._share is None else self._share.server
        return f"<{type(self).__name__} {state}>"

    @property
    def pid(self) -> int:
        """Process id of the present server, or of the last one if it has died."""
        return self._shared_now().server.pid

    async def ready(self) -> None:
        """Wait until the server has imported everything.

        There is no need to: requests may be made at once.

        Raises
        ------
        ForkServerError
            The server has ended instead, for instance because a module of `preload`
            cannot be imported.
        """
        await self._shared_now().living().ready()

    async def fork(
        self,
        target: Callable[..., object],
        args: Sequence[Any] = (),
        *,
        name: str = "warm child",
        daemon: bool = True,
        environ: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Start a child that runs ``target(channel, *args)``.

        The child sees what a spawned one sees: environment, working directory,
        arguments and module search path of this process as they are now, and the main
        script imported as ``__mp_main__``.

        Parameters
        ----------
        target
            Called in the child with its end of the channel, a blocking socket, and
            `args`. Its return is the end of the process, with exit code 0.
        args
            Further arguments; pickled, if need be by cloudpickle.
        name
            ``multiprocessing.current_process().name`` in the child.
        daemon
            Whether the child may not have daemonic children of its own, as in
            `multiprocessing`. All warm children end with this process.
        environ
            Environment variables for this child, over those of this process and
            those of the server.

        Returns
        -------
        The process, which exists by then. If it cannot unpickle `target` or import
        the main script, it sends a `Failure` and ends.

        Raises
        ------
        OSError
            The system refuses to fork, or to start a server.
        ForkServerError
            The server ended before the process existed.
        MainGuardError
            This process is a worker that is only just importing the main script.
        """
        variables = {**os.environ, **self._environ, **(environ or {})}
        frame, fds = pack(target, args, name=name, daemon=daemon, environ=variables)
        process = self._shared_now().living().fork(name, frame, fds)
        try:
            await process.started()
        except asyncio.CancelledError:
            process.kill()
            raise
        return process

    async def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function in a child of its own, and return what it returns.

        Parameters
        ----------
        function, args, kwargs
            What to call; all of it and the result must be picklable.

        Raises
        ------
        Exception
            What the function raised.
        ProcessEnded
            The child ended without a word.
        OSError, ForkServerError, MainGuardError
            As in `fork`.
        """
        process = await self.fork(
            call_and_report, (function, args, kwargs), name=f"call of {function}"
        )
        try:
            message = await process.channel.receive()
            await process.wait()
        except EOFError:
            raise ProcessEnded(await process.wait()) from None
        finally:
            process.kill()  # if it has not ended: nobody waits for it any more
        if isinstance(message, Failure):
            raise message.exception()
        assert isinstance(message, Result)
        value: T = message.value
        return value

    async def release(self) -> None:
        """Give the share back; for the last one, end the server and wait for it.

        Processes that still run then are killed. Releasing twice is no error.
        """
        share, self._share = self._share, None
        if share is None:
            return
        share.users -= 1
        if share.users == 0:
            self._forget()
            await share.stop()

    def _shared_now(self) -> _Shared:
        if self._share is None:
            raise RuntimeError("this share in the fork server has been released")
        return self._share
