"""``subscriptions holders``, ``who-has`` and ``acknowledge``: what they ask for and print, and the confirmation."""

from typing import Any

import pytest

from tests.unit.command.test_administration import RecordingAdmin, rest, run

__all__ = ["rest"]
TOPIC = "/api/v1/clusters/one/topics/persistent/public/default/orders"
CONSUMER = {"name": "c1", "address": "10.0.0.9:4711"}


@pytest.fixture
def gateway(rest: RecordingAdmin) -> RecordingAdmin:
    rest.answers["/api/v1/environment"] = {"cluster": "one"}
    held: dict[str, Any] = {"partition": None, "id": "12:0", "messages": 1, "redeliveries": 3}
    rest.answers[f"{TOPIC}/subscriptions/s%2F1/holders?rows=20&key=k"] = {
        "entries": None,
        "missing": [{"partition": 4, "reason": "loading"}],
        "consumers": [
            {**CONSUMER, "partition": None, "entries": 7, "messages": 9, "oldest": "12:0"}
            | {"oldest_at": 1_750_000_000_000}
        ],
        "unacked": [{**held, "consumer": CONSUMER, "published": None, "slot": 7}],
        "draining": [],
        "draining_total": 0,
        "delayed": None,
        "keys": [{"partition": None, "slot": 7, "consumer": CONSUMER, "waits_for": None}],
    }
    state = {"name": "s/1", "state": "delivered", "consumer": CONSUMER, "redeliveries": 3}
    rest.answers[f"{TOPIC}/messages/12%3A0/holders"] = {"subscriptions": [state], "unread": ["x"]}
    rest.answers[f"{TOPIC}/subscriptions/s%2F1/acknowledge"] = {
        **{"token": "t", "message": "12:0", "was": "held", "state": "delayed"},
        **{"consumer": None, "deliver_at": 1_750_000_000_000},
    }
    return rest


def test_holders_are_listed_and_silent_partitions_named(gateway: RecordingAdmin) -> None:
    result = run("subscriptions", "holders", "orders", "s/1", "--key", "k")
    assert result.exit_code == 0, result.output
    assert "consumers, holding ? entries" in result.stdout
    assert "12:0   ?          c1 (10.0.0.9:4711)  3" in result.stdout
    assert "delayed messages: not known to the broker" in result.stdout
    assert "key k: hash 7 -> c1 (10.0.0.9:4711)" in result.stdout
    assert "partition 4 did not answer: loading" in result.stderr


def test_a_message_is_found_at_its_holder(gateway: RecordingAdmin) -> None:
    result = run("subscriptions", "who-has", "orders", "12:0")
    assert result.stdout.splitlines()[1].split("  ")[0] == "s/1"
    assert "delivered  c1 (10.0.0.9:4711)  3" in result.stdout
    assert "x cannot be read now" in result.stderr


def test_a_message_is_acknowledged_by_the_token_of_its_preview(gateway: RecordingAdmin) -> None:
    refused = run("subscriptions", "acknowledge", "orders", "s/1", "12:0")
    assert refused.exit_code != 0
    assert "which is delayed, due 2025-06-15" in refused.stderr
    done = run("subscriptions", "acknowledge", "orders", "s/1", "12:0", "--yes")
    assert done.stdout == "acknowledged 12:0\n"
    assert gateway.calls[-1][2] == {"preview": False, "token": "t"}
