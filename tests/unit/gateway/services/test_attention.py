"""What needs attention: hops first, then what harms most; bounded."""

from collections.abc import Sequence
from typing import Any

from engine.admin.api import ROW_COLUMNS
from gateway.services.attention import found
from gateway.services.collector import Snapshot
from gateway.services.topic_index import TopicIndex


def snapshot(
    *rows: list[Any],
    brokers: Sequence[dict[str, Any]] = (),
    bookies: Sequence[dict[str, Any]] = (),
) -> Snapshot:
    index = TopicIndex()
    told = {"at": 1, "whole": True, "more": False, "rows": rows, "gone": []}
    index.hear("b:1", told)
    return Snapshot(1, list(brokers), list(bookies), index, lambda: 1)


def row(name: str, **values: int) -> list[Any]:
    return [f"persistent://t/n/{name}", *(values.get(column, 0) for column in ROW_COLUMNS)]


def test_what_needs_attention_comes_errors_first_and_leads_there() -> None:
    alone = row("a b", backlog=7)
    stuck = row("stuck", backlog=7, consumers=1)
    served = row("fine", backlog=7, consumers=1, msg_rate_out=5000)
    brokers = [{"id": "b:1", "state": "down"}]
    bookies = [{"id": "k:1", "state": "writable"}, {"id": "k:2", "state": "down"}]
    said = found(snapshot(alone, stuck, served, brokers=brokers, bookies=bookies), "standalone", 1)
    assert [item["severity"] for item in said["items"]] == ["error", "error", "warning", "warning"]
    assert said["items"][3]["title"] == "persistent://t/n/stuck stands still"
    assert said["items"][2]["link"] == "/c/standalone/t/t/n/a%20b/subscriptions"


def test_attention_is_bounded() -> None:
    many = [row(f"x{number}", backlog=1) for number in range(100)]
    said = found(snapshot(*many), "standalone", 1)
    assert (len(said["items"]), said["more"]) == (5, 97), "no broker, no bookie and three of them"
