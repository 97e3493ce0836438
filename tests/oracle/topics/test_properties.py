"""Properties of topics and subscriptions, and what is stored of topics, beside Apache's; and Apache's tool on ours."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.oracle.conftest import Side
from tests.oracle.servers import LEAN_PEER, PEER

BASE = "/admin/v2/persistent/public/default"
NAME = "persistent://public/default"
ONE, MANY = "/noted", "/noted-many"
CALLS: list[tuple[str, str, Any]] = [
    ("PUT", ONE, {"made": "1"}),
    ("GET", f"{ONE}/properties", None),
    ("PUT", f"{ONE}/properties", {"a": "1", "b": "2"}),
    ("PUT", f"{ONE}/properties", {"b": "3"}),
    ("PUT", f"{ONE}/properties", None),
    ("DELETE", f"{ONE}/properties?key=a", None),
    ("DELETE", f"{ONE}/properties?key=none", None),
    ("GET", f"{ONE}/properties", None),
    ("GET", "/noted-missing/properties", None),
    ("PUT", f"{MANY}/partitions", 2),
    ("PUT", f"{MANY}/properties", {"q": "1"}),
    ("PUT", f"{MANY}/properties", {"r": "1"}),
    ("DELETE", f"{MANY}/properties?key=q", None),
    ("GET", f"{MANY}/properties", None),
    ("GET", f"{MANY}/partitions", None),
    ("GET", f"{MANY}-partition-0/properties", None),
    ("PUT", f"{ONE}/subscription/s", None),
    ("PUT", f"{ONE}/subscription/s/properties", {"a": "1"}),
    ("PUT", f"{ONE}/subscription/s/properties", {"b": "1"}),
    ("GET", f"{ONE}/subscription/s/properties", None),
    ("PUT", f"{ONE}/subscription/none/properties", {"b": "1"}),
    ("GET", f"{ONE}/subscription/none/properties", None),
    ("PUT", "/noted-missing/subscription/s/properties", {"b": "1"}),
    ("PUT", f"{MANY}/subscription/s", None),
    ("PUT", f"{MANY}/subscription/s/properties", {"k": "v"}),
    ("GET", f"{MANY}-partition-1/subscription/s/properties", None),
    ("PUT", f"{MANY}-partition-1/subscription/s/properties", {"k": "w", "x": "y"}),
    ("GET", f"{MANY}/subscription/s/properties", None),
    ("PUT", f"{MANY}-partition-0/subscription/part", None),
    ("PUT", f"{MANY}/subscription/part/properties", {"k": "v"}),
    ("GET", f"{MANY}/subscription/part/properties", None),
    ("GET", f"{MANY}-partition-0/subscription/part/properties", None),
]


@pytest.mark.timeout(300)
def test_every_call_has_the_same_answer_on_both_sides(sides: tuple[Side, Side]) -> None:
    differences = []
    for method, path, body in CALLS:
        want, got = (answer(side, method, BASE + path, body) for side in sides)
        if want != got:
            differences.append(f"{method} {path}\n  apache {want}\n  ours   {got}")
    assert not differences, "\n".join(differences)


def answer(side: Side, method: str, path: str, body: Any) -> tuple[int, Any]:
    status, raw = side.call(method, path, body)
    return status, json.loads(raw) if raw else None


@pytest.mark.timeout(300)
def test_stored_properties_have_the_same_form(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.put(f"{BASE}/stored", {"made": "1"})
        side.put(f"{BASE}/stored/subscription/s")
        side.put(f"{BASE}/stored-many/partitions", 2)
    for path in ("/stored/internal-info", "/stored-many/internal-info"):
        theirs, ours = (answer(side, "GET", BASE + path, None) for side in sides)
        assert form(theirs) == form(ours), (theirs, ours)
    for side in sides:
        side.post(f"{BASE}/stored/terminate")
    theirs, ours = (answer(side, "GET", f"{BASE}/stored/internal-info", None)[1] for side in sides)
    assert theirs.keys() == ours.keys()
    assert form(theirs["terminatedPosition"]) == form(ours["terminatedPosition"])


def form(value: Any) -> Any:
    """Members and types: numbers and times differ."""
    if isinstance(value, dict):
        return {key: form(item) for key, item in sorted(value.items())}
    return [form(item) for item in value] if isinstance(value, list | tuple) else type(value)


def admin(side: Side, *words: str) -> str:
    """Return the output of ``pulsar-admin topics …``."""
    done = subprocess.run(
        [sys.executable, str(PEER), "admin", "--http", side.http, "topics", *words],
        env=os.environ | LEAN_PEER,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(300)
def test_apaches_tool_reads_and_changes_them(sides: tuple[Side, Side]) -> None:
    ours = sides[1]
    topic = f"{NAME}/by-tool"
    ours.put(f"{BASE}/by-tool")
    ours.put(f"{BASE}/by-tool/subscription/s")
    admin(ours, "update-properties", "-p", "a=1", "-p", "b=2", topic)
    admin(ours, "remove-properties", "-k", "a", topic)
    assert admin(ours, "get-properties", topic).split() == ["b", "2"]
    admin(ours, "update-subscription-properties", "-s", "s", "-p", "k=v", topic)
    assert json.loads(admin(ours, "get-subscription-properties", "-s", "s", topic)) == {"k": "v"}
    info = json.loads(admin(ours, "info-internal", topic))
    assert info["properties"] == {"b": "2"}
    assert list(info["cursors"]) == ["s"]
