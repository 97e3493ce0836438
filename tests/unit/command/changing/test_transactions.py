"""``transactions``: what it asks for and prints, the confirmation, and the exit codes."""

import json
from typing import Any

import pytest

from magnetar.command.exits import Exit
from tests.unit.command.test_administration import RecordingAdmin, rest, run

__all__ = ["rest"]
BASE = "/admin/v3/transactions"
TOPIC = "persistent://public/default/orders"


def row(number: int, opened_ms: int) -> dict[str, Any]:
    return {
        **{"txnId": f"(0,{number})", "status": "OPEN", "openTimestamp": opened_ms},
        **{"timeoutAt": 20_000, "producedPartitions": {TOPIC: {}}, "owner": None},
        "ackedPartitions": {TOPIC: {"billing\n": {}}},
    }


@pytest.fixture
def gateway(rest: RecordingAdmin) -> RecordingAdmin:
    rest.answers[f"{BASE}/coordinators"] = [{"id": 0, "brokerServiceUrl": "pulsar://b:6650"}]
    rest.answers[f"{BASE}/coordinatorStats"] = {
        "0": {"state": "Ready", "leastSigBits": 9, "lowWaterMark": 7, "ongoingTxnSize": 2},
        "1": {"state": "Initializing", "leastSigBits": -1, "lowWaterMark": 0, "ongoingTxnSize": 0},
    }
    slow = {"(0,9)": row(9, 2_000), "(0,8)": row(8, 1_000)}
    rest.answers[f"{BASE}/slowTransactions/60000"] = slow
    rest.answers[f"{BASE}/slowTransactions/0"] = {}
    rest.answers[f"{BASE}/transactionMetadata/0/8"] = row(8, 1_000)
    return rest


def test_coordinators_are_listed_with_their_brokers_where_these_are_known(
    gateway: RecordingAdmin,
) -> None:
    lines = run("transactions", "coordinators").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["coordinator", "broker", "state", "open", "newest"],
        ["0", "pulsar://b:6650", "Ready", "2", "9"],
        ["1", "-", "Initializing", "0", "-1"],
    ]


def test_open_transactions_are_listed_from_the_oldest_on(gateway: RecordingAdmin) -> None:
    assert run("transactions", "list").stdout == "no open transactions\n"
    older = run("transactions", "list", "--older", "60", "--json")
    assert [row["txnId"] for row in json.loads(older.stdout)] == ["(0,8)", "(0,9)"]
    assert "(0,8)" in run("transactions", "list", "--older", "60").stdout.splitlines()[1]


@pytest.mark.parametrize("given", ["0,8", "(0,8)", "0:8"])
def test_a_transaction_is_shown_with_what_it_has_to_do_with(
    gateway: RecordingAdmin, given: str
) -> None:
    lines = run("transactions", "show", given).stdout.splitlines()
    assert lines[0].startswith("transaction (0,8)  state OPEN  age ")
    assert lines[1:] == [f"  publishes to {TOPIC}", f"  acknowledges billing\\n of {TOPIC}"]


def test_a_transaction_is_aborted_once_that_is_confirmed(gateway: RecordingAdmin) -> None:
    refused = run("transactions", "abort", "0,8")
    assert refused.exit_code == Exit.USAGE
    assert gateway.calls == []
    assert run("transactions", "abort", "0,8", "-y").stdout == "aborted (0,8)\n"
    assert gateway.calls == [("POST", f"{BASE}/abortTransaction/0/8", None)]


@pytest.mark.parametrize("given", ["", "8", "0,", "0,x", "0,8,1", "-1,8"])
def test_a_text_that_is_no_id_is_refused(gateway: RecordingAdmin, given: str) -> None:
    shown = run("transactions", "show", "--", given)
    assert shown.exit_code == Exit.USAGE
    assert "is no id of a transaction" in shown.output
