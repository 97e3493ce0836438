"""The demo's messages: each has a key and a body in JSON, and the same at every time."""

import json
from typing import Any

import pytest

from gateway.standalone import demo
from gateway.standalone.demo import RUN, TOPICS, _runs


def test_a_demo_publishes_its_announced_messages_in_runs() -> None:
    for topic in TOPICS:
        runs = list(_runs(topic))
        assert sum(map(len, runs)) == topic.count
        assert max(map(len, runs)) == RUN
        messages = [message for run in runs for message in run]
        assert all(
            message.key and isinstance(json.loads(message.payload), dict) for message in messages
        )
        again = [message.payload for run in _runs(topic) for message in run]
        assert again == [message.payload for message in messages]
    orders = [message.key for run in _runs(TOPICS[0]) for message in run]
    assert orders.count("customer-00") > len(orders) / 4, (
        "something to find: a customer that has most"
    )


def test_a_demo_of_several_clusters_is_replicated_between_those_of_its_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, str, Any]] = []

    def rest(http: str, method: str, path: str, body: Any, allow: int, token: str) -> bytes:
        calls.append((method, path, body))
        return b'{"allowedClusters": ["us", "eu"]}'

    reports: list[str] = []
    monkeypatch.setattr(demo, "_rest", rest)
    demo.replicate("http://here", reports.append)
    path = "/namespaces/public/demo"
    assert calls == [
        ("GET", "/tenants/public", None),
        ("PUT", path, None),
        ("POST", f"{path}/replication", ["us", "eu"]),
        ("POST", f"{path}/deduplication", True),
    ]
    assert reports == ["topics of public/demo are replicated between us, eu"]
