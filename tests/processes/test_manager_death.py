"""However the manager ends, nothing of it stays."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from pathlib import Path

import psutil
import pytest

from tests.processes.support import all_gone, manager, outcome

_SCRIPT = """
    import asyncio, json, os, sys
    from dask_fleet.processes import ForkServer
    from tests.processes import probes

    async def main(fork):
        server = ForkServer()
        print(json.dumps(server.pid), flush=True)
        processes = [
            await server.fork(probes.sleep),
            await server.fork(probes.sleep_in_c),
            await server.fork(probes.sleep),
        ]
        print(json.dumps([process.pid for process in processes]), flush=True)
        if fork and os.fork() == 0:
            print(json.dumps(os.getpid()), flush=True)
            while True:  # a copy of the manager, with copies of all it holds
                os.read(0, 1) or os.kill(os.getpid(), 19)
        await asyncio.Event().wait()

    if __name__ == "__main__":
        asyncio.run(main("fork" in sys.argv))
"""


@pytest.mark.parametrize(
    "signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
)
def test_signal_to_the_manager(tmp_path: Path, signum: signal.Signals) -> None:
    with manager(tmp_path, _SCRIPT) as running:
        pids = [running.says(), *running.says()]
        running.process.send_signal(signum)
        assert all_gone(pids)


def test_stopped_children(tmp_path: Path) -> None:
    with manager(tmp_path, _SCRIPT) as running:
        server, children = running.says(), running.says()
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        running.kill()
        assert all_gone([server, *children])


def test_stopped_server_then_killed(tmp_path: Path) -> None:
    """What a stopped server cannot do, the kernel does when the server is killed."""
    with manager(tmp_path, _SCRIPT) as running:
        server, children = running.says(), running.says()
        os.kill(server, signal.SIGSTOP)
        os.kill(children[0], signal.SIGSTOP)
        os.kill(server, signal.SIGKILL)
        assert all_gone([server, *children])
        running.kill()


def test_copy_of_the_manager_lives_on(tmp_path: Path) -> None:
    with manager(tmp_path, _SCRIPT, "fork") as running:
        server, children = running.says(), running.says()
        copy = running.says()
        running.kill()
        assert all_gone([server, *children])
        assert psutil.pid_exists(copy)


def test_interrupt_from_the_terminal_is_for_the_manager_alone(tmp_path: Path) -> None:
    with manager(
        tmp_path,
        """
        import asyncio, json, os, signal
        from dask_fleet.processes import ForkServer

        async def main():
            server = ForkServer()
            process = await server.fork(serve)
            print(json.dumps([server.pid, process.pid]), flush=True)
            interrupted = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGINT, interrupted.set
            )
            print(json.dumps("ready"), flush=True)
            await interrupted.wait()
            process.channel.send("still there?")
            print(json.dumps(await process.channel.receive()), flush=True)
            await server.release()

        def serve(channel):
            from dask_fleet.processes.channel import receive_message, send_message
            receive_message(channel)
            send_message(channel, os.getpid())

        if __name__ == "__main__":
            asyncio.run(main())
        """,
    ) as running:
        pids = running.says()
        assert running.says() == "ready"
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.says() == pids[1]
        assert running.process.wait() == 0
        assert all_gone(pids)


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_of_the_start(tmp_path: Path, seed: int) -> None:
    with manager(tmp_path, _SCRIPT) as running:
        running.says()  # the server has been started, and imports
        delay = random.Random(seed).uniform(0, 0.4)
        timer = threading.Timer(delay, running.process.kill)
        timer.start()
        family = _family(running.process.pid)
        timer.join()
        running.process.wait()
        assert all_gone(family)


def _family(pid: int) -> set[int]:
    """All descendants that a process ever has, until it ends."""
    seen: set[int] = set()
    try:
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            seen |= {child.pid for child in process.children(recursive=True)}
    except psutil.NoSuchProcess:
        return seen
    return seen


def test_script_that_just_ends(tmp_path: Path) -> None:
    """Without a release: nothing stays, and nothing is said."""
    ended = outcome(
        tmp_path,
        """
        import asyncio, json, logging, sys
        from distributed import Scheduler
        from dask_fleet.processes import WarmNanny

        async def main():
            scheduler = await Scheduler(host="127.0.0.1", dashboard_address=":0")
            nannies = [
                WarmNanny(scheduler.address, silence_logs=logging.WARN)
                for _ in range(2)
            ]
            await asyncio.gather(*nannies)
            print(json.dumps([nanny.pid for nanny in nannies]), flush=True)
            sys.stdout.close()
            sys.exit(0)

        if __name__ == "__main__":
            logging.getLogger("distributed").setLevel(logging.WARN)
            loop = asyncio.new_event_loop()
            loop.run_until_complete(main())
        """,
    )
    assert ended.returncode == 0
    assert ended.stderr == ""
    assert all_gone(json.loads(ended.stdout))
