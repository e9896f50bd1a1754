"""A user's subclass of distributed's ``Adaptive``, at work in our loop.

``Adaptive`` is a loop of its own with two questions in it: how many workers should
there be, and which should leave. People override these two. Their answers are asked
for here; the loop around them stays asleep.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from distributed.deploy.adaptive import Adaptive

from dask_fleet.cluster.adaptive import AdaptHandle

#: What distributed's loop did and ours does now; overriding it has no effect.
_LOOP = ("adapt", "recommendations", "scale_up", "scale_down")

_OPTIONS = (
    "minimum",
    "maximum",
    "interval",
    "wait_count",
    "target_duration",
    "worker_key",
)


class LegacyPolicy:
    """A policy that was written as a subclass of ``Adaptive``.

    Parameters
    ----------
    kind
        The subclass.
    cluster
        The cluster it will ask about.
    options
        What the user gave to ``adapt``, apart from bounds in cores and memory.
    """

    def __init__(
        self, kind: type[Adaptive], cluster: Any, options: dict[str, Any]
    ) -> None:
        self.policy = kind(cluster, **options)
        self._kind = kind
        self._given = options.keys()
        self._cluster = cluster

    def _overrides(self, name: str) -> bool:
        return getattr(self._kind, name) is not getattr(Adaptive, name)

    def silence(self) -> None:
        """Put its own loop to sleep, for good. Only in the cluster's event loop."""
        Adaptive.stop(self.policy, reason="dask-fleet-asks-instead")

    @property
    def target(self) -> Callable[[], Any] | None:
        """How many workers there should be; ``None`` if that is not overridden."""
        for name in ("safe_target", "target"):
            if self._overrides(name):
                function: Callable[[], Any] = getattr(self.policy, name)
                return function
        return None

    @property
    def workers_to_close(self) -> Callable[[int], Awaitable[list[str]]] | None:
        """Who should leave; ``None`` if that is not overridden."""
        return self._ask_who_leaves if self._overrides("workers_to_close") else None

    async def _ask_who_leaves(self, target: int) -> list[str]:
        chosen: Iterable[Any] = await self.policy.workers_to_close(target=target)
        workers = self._cluster.scheduler_info["workers"]
        return [str(workers[one]["name"] if one in workers else one) for one in chosen]

    @property
    def options(self) -> dict[str, Any]:
        """What it makes of the options; ``None`` for those that nobody chose.

        A subclass may have defaults of its own.
        """
        usual, own = Adaptive(None), self.policy  # type: ignore[arg-type]
        return {
            name: getattr(own, name)
            if name in self._given or getattr(own, name) != getattr(usual, name)
            else None
            for name in _OPTIONS
        }

    def warn(self, stacklevel: int) -> None:
        """Say what to write instead."""
        name = self._kind.__name__
        text = f"adapt(Adaptive={name}) works, but a class is no longer needed for it."
        if self.target is not None:
            text += (
                " Instead, write the number of workers as a function:\n"
                f"    async def target(): ...  # what {name}.target returns\n"
                "    cluster.adapt(target=target)"
            )
        if self.workers_to_close is not None:
            kind = type(self._cluster).__name__
            text += (
                "\nWho leaves is asked of the cluster:\n"
                f"    class My{kind}({kind}):\n"
                "        async def workers_to_close(self, target): ..."
            )
        unused = [name for name in _LOOP if self._overrides(name)]
        if unused:
            text += (
                f"\nNot used: {', '.join(unused)} of {name}; "
                "deciding, starting and stopping are the cluster's own."
            )
        warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


class LegacyHandle(AdaptHandle):
    """A handle that has the attributes of the user's policy object as well."""

    policy: Adaptive | None = None

    def __getattr__(self, name: str) -> Any:
        if self.policy is None or name.startswith("__"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        return getattr(self.policy, name)


def checked_class(value: object) -> type[Adaptive] | None:
    """Check what was given for ``Adaptive``; ``None`` if it overrides nothing.

    Raises
    ------
    TypeError
        If it is no subclass of distributed's ``Adaptive``.
    """
    if value is None or value is Adaptive:
        return None
    if isinstance(value, type) and issubclass(value, Adaptive):
        return value
    raise TypeError(
        "the first positional argument of adapt, Adaptive, must be a subclass of "
        f"distributed's Adaptive; got {value!r}. Write numbers of workers by name: "
        "adapt(minimum=0, maximum=10)"
    )
