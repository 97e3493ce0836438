"""``tiers``: what it asks for and prints."""

import json
from typing import Any

import pytest

from magnetar.command.exits import Exit
from tests.unit.command.test_administration import RecordingAdmin, rest, run

__all__ = ["rest"]
CLUSTER = "/api/v1/clusters/here"
TOPIC = f"{CLUSTER}/topics/persistent/public/default/orders"
LEDGER = {"topic": "persistent://public/default/orders", "ledger_id": 7, "entries": 3}
STATE = {
    "topic": "persistent://public/default/orders", "status": "ERROR", "error": "no answer",
    "trouble": "away", "retry_ms": None, "read_error": "", "ledgers": 2, "done_ledgers": 1,
    "bytes": 100, "done_bytes": 50,
}  # fmt: skip
TIERS: dict[str, Any] = {
    "policy": {"store": "aws-s3 cold"},
    "sums": [{"tier": "both", "ledgers": 1, "bytes": 50}],
    "preview": {"ledgers": 1, "bytes": 50, "bookies_cost": None, "store_cost": 0.02},
    "states": [STATE],
    "ledgers": [{**LEDGER, "bytes": 50, "tier": "both", "due": False}],
}
SCAN = {
    "bucket": "aws-s3 cold", "error": "", "objects": 8, "bytes": 80, "foreign": 0, "orphans": 2,
    "orphan_bytes": 20, "removed": False,
}  # fmt: skip


@pytest.fixture
def gateway(rest: RecordingAdmin) -> RecordingAdmin:
    rest.answers["/api/v1/environment"] = {"cluster": "here"}
    rest.answers[f"{TOPIC}/tiers?"] = TIERS
    rest.answers[f"{TOPIC}/tiers?threshold_bytes=1000&threshold_s=60"] = {**TIERS, "policy": None}
    rest.answers[f"{TOPIC}/offload"] = {"started": ["persistent://public/default/orders"]}
    rest.answers[f"{CLUSTER}/tiered-storage/orphans"] = {
        "buckets": [SCAN, {"bucket": "filesystem /x", "error": "away: no answer"}]
    }
    return rest


def test_places_preview_and_trouble_are_shown(gateway: RecordingAdmin) -> None:
    text = run("tiers", "show", "orders").stdout
    assert "persistent://public/default/orders: aws-s3 cold" in text
    assert "both: 50 bytes in 1 ledgers" in text
    assert "would be moved: 50 bytes in 1 ledgers, 0.02 a month" in text
    assert "ERROR 1 of 2 ledgers, away: no answer" in text
    other = run("tiers", "show", "orders", "--keep", "1000", "--age", "60").stdout
    assert "no tiered storage" in other


def test_ledgers_that_are_not_read_are_named_with_the_reason(gateway: RecordingAdmin) -> None:
    reason = "unreadable: ledger 7: only in objects of several ledgers"
    gateway.answers[f"{TOPIC}/tiers?"] = {
        **TIERS,
        "sums": [{"tier": "unreadable", "ledgers": 1, "bytes": 50}],
        "states": [
            {**STATE, "status": "SUCCESS", "error": "", "trouble": "", "read_error": reason}
        ],
        "ledgers": [{**LEDGER, "bytes": 50, "tier": "unreadable", "due": False}],
    }
    text = run("tiers", "show", "orders").stdout
    assert "not readable here: 50 bytes in 1 ledgers" in text
    assert f"  not read: {reason}" in text


def test_moving_is_started_with_the_bytes_to_keep(gateway: RecordingAdmin) -> None:
    assert "1 started" in run("tiers", "move", "orders", "--keep", "5").stdout
    assert ("POST", f"{TOPIC}/offload", {"keep_bytes": 5}) in gateway.calls


def test_orphans_are_counted_and_removed_after_a_confirmation(gateway: RecordingAdmin) -> None:
    text = run("tiers", "orphans").stdout
    assert "8 objects of 80 bytes; 2 of 20 bytes that no topic names" in text
    assert "filesystem /x: away: no answer" in text
    refused = run("tiers", "orphans", "--remove")
    assert refused.exit_code != Exit.DONE
    rows = json.loads(run("tiers", "orphans", "--remove", "--yes", "--json").stdout)
    assert rows[0]["orphans"] == 2
    assert gateway.calls[-1][2] == {"remove": True, "age_s": 86_400}
