"""Rows of lists from an Apache broker's statistics."""

import json
from typing import Any

import pytest

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from gateway.apache.rows import BrokerRows, rows_of
from tests.support.net.recorded_apache import GOLDEN

STATS: dict[str, Any] = json.loads((GOLDEN / "answers.json").read_text())["answers"][
    "/admin/v2/broker-stats/topics"
]
BEHIND = "persistent://acme/ns0/orders-0010"
AT = 1_000_000


def rows(stats: Any = STATS, at: int = AT, seen: Any = None) -> BrokerRows:
    return rows_of(stats, at, seen or {})


def column(row: list[Any], name: str) -> Any:
    return row[1 + ROW_COLUMNS.index(name)]


def changed(**stats: Any) -> Any:
    """Return statistics of one topic whose subscription ``worker`` has these members."""
    sub = {"msgBacklog": 10, "msgRateOut": 0.0, "consumers": [], "type": "Shared", **stats}
    topic = {"subscriptions": {"worker": sub}, "publishers": [], "replication": {}}
    return {"acme/ns": {"0x00": {"persistent": {"persistent://acme/ns/t": topic}}}}


def cause_of(stats: Any, **given: Any) -> str | None:
    cells = rows(stats, **given).subscriptions["persistent://acme/ns/t"]
    lag = cells[1][3]
    return lag and lag[0]


def test_a_topic_has_the_figures_of_its_statistics() -> None:
    row = rows().topics[BEHIND]
    assert column(row, "backlog") == 1677
    assert column(row, "producers") == 1
    assert column(row, "msg_rate_in") == 19_667
    assert column(row, "subscriptions") == 1


def test_system_topics_and_health_checks_are_left_out() -> None:
    names = rows().topics
    assert not any("__" in name for name in names)
    heartbeat = {
        "pulsar/us/127.0.0.1:1": {
            "0x": {"persistent": {"persistent://pulsar/us/127.0.0.1:1/h": {}}}
        }
    }
    assert rows(heartbeat).topics == {}


def test_an_age_that_is_not_reported_is_unknown_and_not_zero() -> None:
    assert column(rows().topics[BEHIND], "oldest_at") == OLDEST_UNKNOWN
    assert rows().subscriptions[BEHIND][1][4] == OLDEST_UNKNOWN


@pytest.mark.parametrize(
    ("stats", "cause"),
    [
        ({}, "no-consumer"),
        ({"consumers": [{"availablePermits": 0}]}, "no-permits"),
        ({"consumers": [{"blockedConsumerOnUnackedMsgs": True}]}, "unacked-limit"),
        ({"consumers": [{"availablePermits": 5}]}, None),
        ({"msgBacklog": 0}, None),
    ],
)
def test_the_cause_of_a_backlog_is_stated_where_statistics_show_it(
    stats: Any, cause: str | None
) -> None:
    assert cause_of(changed(**stats)) == cause


def test_a_growing_backlog_is_slow_and_a_cause_keeps_its_begin() -> None:
    busy = {"consumers": [{"availablePermits": 5}]}
    seen = rows(changed(**busy)).seen
    more = rows(changed(**busy, msgBacklog=20), at=AT + 10_000, seen=seen)
    lag = more.subscriptions["persistent://acme/ns/t"][1][3]
    assert lag[0] == "slow"
    assert lag[3] == 1_000  # one entry a second, in thousandths
    still = rows(changed(**busy, msgBacklog=30), at=AT + 20_000, seen=more.seen)
    assert still.subscriptions["persistent://acme/ns/t"][1][3][2] == lag[2]


def test_a_link_that_is_not_connected_has_a_cause() -> None:
    stats = changed()
    topic = stats["acme/ns"]["0x00"]["persistent"]["persistent://acme/ns/t"]
    topic["replication"] = {"eu": {"connected": False, "replicationBacklog": 7, "msgRateOut": 0.5}}
    ((cluster, sent, received),) = rows(stats).links["persistent://acme/ns/t"][1:]
    assert (cluster, sent[0], sent[2], sent[4], received) == ("eu", 7, 500, "connecting", None)
