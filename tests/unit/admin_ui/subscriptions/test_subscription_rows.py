"""Rows of the list of subscriptions as JSON: written again only when more than their time changed."""

import json
from types import SimpleNamespace
from typing import Any, cast

from admin_ui.subscriptions.all_subscriptions import row_text
from engine.admin.api.rows import ROW_COLUMNS
from gateway.http.bodies import KeptTexts
from gateway.services.collection.snapshot import Snapshot
from gateway.services.feeds.row_list import RowChanges
from gateway.services.index.topic_index import TopicIndex
from gateway.services.subscriptions.subscription_index import SubscriptionIndex, key_of

TOPIC = "persistent://public/default/orders"
KEY = key_of(TOPIC, "work")


class Known:
    """A collector's knowledge of one topic and its subscription."""

    def __init__(self) -> None:
        self.topics, self.subscriptions = TopicIndex(), SubscriptionIndex()
        self.topics.placed = self.subscriptions
        self.problem: tuple[str, str] | None = None
        self.texts = KeptTexts()

    def report(self, at: int, backlog: int | None) -> None:
        self.topics.apply("b", RowChanges(at, [[TOPIC, *[0 for _ in ROW_COLUMNS]]], []))
        self.subscriptions.report(TOPIC, [["work", backlog, 1_500]])

    def row(self) -> tuple[str, dict[str, Any]]:
        attention = SimpleNamespace(cause_of_subscription=lambda key: self.problem)
        snapshot = SimpleNamespace(
            topics=self.topics, subscriptions=self.subscriptions, attention=attention, taken=9
        )
        text = row_text(cast(Snapshot, snapshot), self.texts, KEY)
        assert text is not None
        return text[0], json.loads("".join(text))


def test_a_row_is_written_again_only_when_more_than_its_time_changed() -> None:
    known = Known()
    known.report(5, 7)
    first, row = known.row()
    assert (row["name"], row["topic"], row["subscription"]) == (TOPIC, "orders", "work")
    assert (row["backlog"], row["msg_rate_out"], row["at"], row["attention"]) == (7, 1.5, 5, None)
    known.report(6, 7)
    later, row = known.row()
    assert later is first
    assert row["at"] == 6
    known.report(7, 8)
    assert known.row()[1]["backlog"] == 8
    known.problem = ("warning", "no-consumer")
    assert known.row()[1]["attention"] == {"severity": "warning", "cause": "no-consumer"}


def test_an_unknown_backlog_stays_unknown_in_its_row() -> None:
    known = Known()
    known.report(5, 7)
    known.row()
    known.report(6, None)
    _, row = known.row()
    assert row["backlog"] is None
    assert row["known"] == "no"
