"""Decisions as lines of JSON: what was known, and what was decided.

One line holds a snapshot and the decision that was made from it. Whoever has the line
can make the decision again, anywhere: see ``replay.py``. A bug report is a file.

The form is plain: a record is an object with the name of its class under ``is``; sets
and enumerations are marked the same way; infinities are texts, for JSON has none.
Fields that have their default value are left out, so lines stay short and old lines can
still be read after a field was added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from dask_fleet.core import (
    causes,
    commands,
    endings,
    failures,
    instance,
    settings,
    snapshot,
    states,
)
from dask_fleet.core.decide import Decision
from dask_fleet.core.snapshot import Snapshot

#: The version of the form. A line of another version is refused.
VERSION = 1

_MARK = "is"
_MODULES = (
    causes,
    commands,
    endings,
    failures,
    instance,
    settings,
    snapshot,
    states,
)

#: Every record and enumeration that may stand in a line, by the name of its class.
_KNOWN: dict[str, Any] = {"Decision": Decision} | {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) and (is_dataclass(value) or issubclass(value, Enum))
}

#: Values that are compared by identity elsewhere: an equal one becomes this one.
_CANONICAL = (instance.NO_TROUBLE,)


def line(facts: Snapshot, decision: Decision) -> str:
    """Write a snapshot and its decision as one line of JSON.

    Examples
    --------
    >>> from dask_fleet.core.decide import decide
    >>> facts = Snapshot(now=1.0, target=1, instances={}, seen=frozenset())
    >>> read(line(facts, decide(facts))) == (facts, decide(facts))
    True
    """
    content = {
        "version": VERSION,
        "snapshot": encode(facts),
        "decision": encode(decision),
    }
    return json.dumps(content, separators=(",", ":"))


def read(text: str) -> tuple[Snapshot, Decision]:
    """Read a line that :func:`line` has written.

    Raises
    ------
    ValueError
        If it is no such line; the message says what is wrong.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not a line of JSON: {error}") from error
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise ValueError(f"not a recorded decision of version {VERSION}: {text:.60}")
    try:
        facts, decision = decode(content["snapshot"]), decode(content["decision"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a recorded decision lacks or misnames {error}") from error
    if not isinstance(facts, Snapshot) or not isinstance(decision, Decision):
        raise ValueError("a recorded decision needs a snapshot and a decision")
    return facts, decision


def encode(value: Any) -> Any:
    """Turn a value of the core into plain data.

    Examples
    --------
    >>> encode(settings.Growth(at_least=3))
    {'is': 'Growth', 'at_least': 3}
    >>> encode(float("inf"))
    {'is': 'float', 'value': 'inf'}
    """
    if isinstance(value, Enum):
        return {_MARK: type(value).__name__, "value": value.value}
    if isinstance(value, float) and not math.isfinite(value):
        return {_MARK: "float", "value": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {_MARK: "dict", "items": [[k, encode(v)] for k, v in value.items()]}
    if isinstance(value, (set, frozenset)):
        return {_MARK: "set", "items": sorted(value)}
    if isinstance(value, (list, tuple)):
        return [encode(one) for one in value]
    return _encode_record(value)


def _encode_record(value: Any) -> dict[str, Any]:
    name = type(value).__name__
    if _KNOWN.get(name) is not type(value):
        raise TypeError(f"cannot record a {name}")
    content: dict[str, Any] = {_MARK: name}
    for one in fields(value):
        held = getattr(value, one.name)
        if not _is_default(one, held):
            content[one.name] = encode(held)
    return content


def _is_default(one: Field[Any], held: Any) -> bool:
    if one.default is not MISSING:
        return bool(held == one.default)
    if one.default_factory is not MISSING:
        return bool(held == one.default_factory())
    return False


def decode(data: Any) -> Any:
    """Turn plain data back into a value of the core.

    Raises
    ------
    KeyError
        If a class is not known.
    TypeError
        If a field is not known or missing.
    """
    if isinstance(data, list):
        return tuple([decode(one) for one in data])
    if not isinstance(data, dict):
        return data
    name = data[_MARK]
    if name == "float":
        return float(data["value"])
    if name == "set":
        return frozenset(data["items"])
    if name == "dict":
        return {key: decode(value) for key, value in data["items"]}
    known = _KNOWN[name]
    if issubclass(known, Enum):
        return known(data["value"])
    value = known(**{key: decode(one) for key, one in data.items() if key != _MARK})
    return next((one for one in _CANONICAL if one == value), value)
