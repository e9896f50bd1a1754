"""R33, R42: clusters on one machine keep to themselves."""

from __future__ import annotations

import json
import urllib.request
import warnings
from typing import Any

import psutil

from tests.cases import kit
from tests.cases.harness import run


def neighbours() -> dict[str, Any]:
    make = kit.cluster_class()
    with (
        make(n_workers=1, threads_per_worker=1) as first,
        make(n_workers=1, threads_per_worker=1) as second,
    ):
        listening = []
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            listening += [
                connection.laddr.ip
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            ]
        port = first.scheduler_address.rpartition(":")[2]
        taken = {"scheduler_port": int(port), "dashboard_address": ":0"}
        error = kit.refusal(lambda: make(n_workers=0, **taken))
        return {
            "listening": sorted(set(listening)),
            "identities": [_identity(cluster) for cluster in (first, second)],
            "addresses": [cluster.scheduler_address for cluster in (first, second)],
            "links": [cluster.dashboard_link for cluster in (first, second)],
            "port": port,
            "refusal": str(error),
        }


def _identity(cluster: Any) -> str:
    """The address of the scheduler that answers behind the dashboard link."""
    root = cluster.dashboard_link.rpartition("/")[0]
    with urllib.request.urlopen(f"{root}/json/identity.json", timeout=10) as answer:
        return str(json.load(answer)["address"])


def test_r33_neighbours_and_ports() -> None:
    """Only loopback is listened on, each link leads home, a taken port is named."""
    outcome = run(neighbours)
    outcome.clean()
    value = outcome.value
    assert set(value["listening"]) <= {"127.0.0.1", "::1"}
    assert value["identities"] == value["addresses"]
    assert value["links"][0] != value["links"][1]
    assert value["port"] in value["refusal"]


def same_name() -> dict[str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with (
            kit.start(n_workers=0, name="same") as first,
            kit.start(n_workers=0, name="same") as second,
        ):
            return {
                "names": [first.name, second.name],
                "equal": first == second,
                "itself": first == _same(first),
                "warned": [
                    str(warning.message)
                    for warning in caught
                    if "same" in str(warning.message)
                ],
            }


def _same(thing: Any) -> Any:
    return thing


def test_r42_same_name_twice() -> None:
    """The second live cluster of one name is renamed with a warning, and is another."""
    outcome = run(same_name)
    outcome.clean()
    assert outcome.value["names"] == ["same", "same-2"]
    assert not outcome.value["equal"]
    assert outcome.value["itself"]
    assert len(outcome.value["warned"]) == 1
