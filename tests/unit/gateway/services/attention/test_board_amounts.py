"""Amounts of backlogs in the overview, alone and in groups."""

import pytest

from gateway.services.attention.at_rest import HOLD_MS
from gateway.services.feeds.row_list import RowChanges
from tests.support.admin.board_console import Console, T


def test_a_group_names_its_largest_and_its_growing_member(console: Console) -> None:
    causes = ("slow", "held", "standby", "redelivery")
    for cause in causes:
        console.lag(f"t-{cause}", "s", cause, 500)
    console.lag("single", "drain", "no-consumer", 60_000)
    console.lag("sixty", "drain", "no-consumer", 59_000)
    console.lag("invoices", "archiver", "no-consumer", 3_000, growth=5_000, severity="error")
    items = console.found()["items"]
    [group] = [item for item in items if item["count"] > 1]
    assert group["title"] == "3 subscriptions have no consumer: 122,000 entries"
    assert (
        group["detail"]
        == "largest single/drain 60,000 entries · growing: invoices/archiver by 5.0 entries/s"
    )
    assert group["severity"] == "error"


@pytest.mark.parametrize(
    ("messages", "estimated", "text"),
    [
        (None, False, "backlog of 212 entries, growing by 3.0 entries/s"),
        (212, False, "backlog of 212 messages, growing by 3.0 messages/s"),
        (59_000, True, "backlog of ≈ 59,000 messages (212 entries), growing by ≈ 835 messages/s"),
        (212, True, "backlog of ≈ 212 messages, growing by ≈ 3.0 messages/s"),
        (59_360, False, "backlog of 59,360 messages (212 entries), growing by 840 messages/s"),
    ],
)
def test_entries_are_called_entries_and_messages_are_estimated(
    console: Console, messages: int | None, estimated: bool, text: str
) -> None:
    more = {} if messages is None else {"messages": messages, "estimated": estimated}
    console.lag("sixty", "drain", "held", 212, growth=3_000, **more)
    [item] = console.found()["items"]
    assert text in item["detail"]


def test_a_slow_subscription_has_its_lag_in_messages_per_second(console: Console) -> None:
    console.lag("sixty", "drain", "slow", 212, growth=3_000, messages=59_000, estimated=True)
    [item] = console.found()["items"]
    assert item["title"] == "drain is slower than arrivals by ≈ 835 messages/s"


def test_one_entry_of_many_messages_and_one_message_agree_with_their_verb(console: Console) -> None:
    for messages, text in (
        (30, "backlog of 30 messages (1 entry) ·"),
        (1, "backlog of 1 message ·"),
    ):
        console.rows = []
        console.lag("a", "drain", "held", 1, messages=messages, estimated=False)
        [item] = console.found(10)["items"]
        assert text in item["detail"]


def test_few_large_batches_do_more_harm_than_more_single_messages(console: Console) -> None:
    console.lag("plain", "s", "held", 400, messages=400, estimated=False)
    console.lag("batched", "s", "standby", 212, messages=60_000, estimated=True)
    assert console.causes() == ["standby", "held"]


def test_a_topic_at_rest_is_described_in_messages_where_they_are_known(console: Console) -> None:
    figures = {"backlog": 212, "backlog_messages": 60_000, "backlog_estimated": 212}
    console.topics.catalog({T + "archive": 0}, [])
    console.topic("archive", **figures, subscriptions=1)
    console.topics.apply("b:1", RowChanges(1, [], [T + "archive"]))
    for name in console.topics.due(console.now, 5):
        console.topics.apply_at_rest(
            {"at": console.now, "rows": [[name, 1, 212, 9]], "missing": []}
        )
    [item] = console.found(1 + HOLD_MS // 1_000)["items"]
    assert item["detail"] == "backlog of ≈ 60,000 messages (212 entries) · not loaded by any broker"


def test_messages_held_up_by_a_keys_consumer_are_counted(console: Console) -> None:
    console.lag(
        *("hot", "rollup", "hot-key", 2_400),
        **{"growth": 4_300, "consumer": "c-1", "waiting": 2_379, "keys": 27, "unacked": 5},
    )
    [item] = console.found()["items"]
    assert item["title"] == "rollup: one consumer holds up its keys"
    assert item["detail"] == (
        "t/n/hot · backlog of 2,400 entries, growing by 4.3 entries/s · consumer c-1 is the bottleneck:"
        " 2,379 entries of its 27 keys wait, 5 are unacknowledged"
    )
