"""Details of a topic, from the reports of its partitions' brokers."""

from typing import Any

from admin_ui.topics import detail
from admin_ui.topics.detail import TopicPart
from engine.admin.api.rows import OLDEST_UNKNOWN

T = "persistent://t/n/x"


def publisher(name: str, number: int, address: str = "/10.0.0.1:5000", **more: Any) -> Any:
    return {
        "producerName": name,
        "producerId": number,
        "address": address,
        "msgRateIn": 1.5,
        "clientVersion": "v",
        **more,
    }


def part(number: int | None, *publishers: Any, owner: str = "b1", **stats: Any) -> TopicPart:
    name = T if number is None else f"{T}-partition-{number}"
    values = {"publishers": list(publishers), "subscriptions": {}, "ownerBroker": owner, **stats}
    return TopicPart(name, number, values, {}, True, None)


def silent(number: int, **last: Any) -> TopicPart:
    row = {**detail.part_row(part(number), 5), "known": "live", "owner": "b2", **last}
    return TopicPart(f"{T}-partition-{number}", number, None, {}, True, row)


def subscription(backlog: int, **more: Any) -> dict[str, Any]:
    return {"msgBacklog": backlog, "consumers": [], "type": "Shared", **more}


def seen(parts: list[TopicPart]) -> list[tuple[str, list[int]]]:
    return sorted((row["name"], row["partitions"]) for row in detail.producers(parts))


def measured(backlog: int, messages: int, estimated: int = 0, **more: Any) -> dict[str, Any]:
    """Return a subscription as our brokers report it."""
    counts = {"backlogMessages": messages, "backlogEstimated": estimated, "backlogUnmeasured": 0}
    return subscription(backlog, **counts, **more)


def test_backlog_messages_add_up_and_unmeasured_entries_are_counted_apart() -> None:
    def rows(*of: dict[str, Any]) -> list[tuple[int, int, int, int]]:
        parts = [part(number, subscriptions={"s": values}) for number, values in enumerate(of)]
        subscription_rows = [*detail.subscriptions(parts).values()]
        total = detail.summed(T, 2, [detail.part_row(topic_part, 9) for topic_part in parts], 1, 9)
        return [
            (
                row["backlog"],
                row["backlog_messages"],
                row["backlog_estimated"],
                row["backlog_unmeasured"],
            )
            for row in (*subscription_rows, total)
        ]

    assert rows(measured(212, 60_000, 212)) == 2 * [(212, 60_000, 212, 0)]
    assert rows(measured(212, 60_000, 212), measured(10, 10)) == 2 * [(222, 60_010, 212, 0)]
    assert rows(measured(212, 60_000, 212), subscription(10)) == 2 * [(222, 60_010, 212, 10)]
    assert rows(subscription(0)) == 2 * [(0, 0, 0, 0)]


def test_the_oldest_message_is_unknown_while_one_partition_does_not_report_it() -> None:
    def oldest(*of: dict[str, Any]) -> int | None:
        parts = [part(number, subscriptions={"s": values}) for number, values in enumerate(of)]
        (row,) = detail.subscriptions(parts).values()
        oldest_at: int | None = row["oldest_at"]
        return oldest_at

    late = measured(1, 1, oldestUnacknowledgedAt=50)
    early = measured(1, 1, oldestUnacknowledgedAt=40)
    none = measured(0, 0, oldestUnacknowledgedAt=-1)
    assert oldest(late, early, none) == oldest(early, late) == 40
    assert oldest(none) == 0
    assert oldest(late, subscription(3)) is None
    assert oldest(subscription(3), late) is None


def test_the_oldest_of_a_topic_is_the_least_of_its_parts() -> None:
    def oldest(*times: int) -> int | None:
        parts = [part(number, oldestUnacknowledgedAt=at) for number, at in enumerate(times)]
        rows = [detail.part_row(topic_part, 9) for topic_part in parts]
        oldest_at: int | None = detail.summed(T, len(rows), rows, 0, 9)["oldest_at"]
        return oldest_at

    assert (oldest(0, 70, 60), oldest(0, 0), oldest(70, OLDEST_UNKNOWN)) == (60, 0, None)


def test_a_producer_of_one_name_is_one() -> None:
    parts = [part(number, publisher("mine", number)) for number in range(3)]
    (row,) = detail.producers(parts)
    assert (row["name"], row["partitions"], row["msg_rate_in"]) == ("mine", [0, 1, 2], 4.5)
    assert row["address"] == "10.0.0.1:5000"


def test_names_that_brokers_gave_are_one_producer_by_the_clients_ids() -> None:
    parts = [
        part(0, publisher("standalone-0-2", 0), publisher("standalone-0-7", 4)),
        part(1, publisher("standalone-0-9", 5), publisher("standalone-0-1", 1)),
    ]
    assert seen(parts) == [("standalone-0-2", [0, 1]), ("standalone-0-7", [0, 1])]


def test_two_clients_on_a_host_are_two_producers() -> None:
    parts = [
        part(0, publisher("s-0-1", 0), publisher("s-0-2", 0, "/10.0.0.1:6000")),
        part(1, publisher("s-0-4", 1, "/10.0.0.1:6000"), publisher("s-0-3", 1)),
    ]
    assert seen(parts) == [("s-0-1", [0, 1]), ("s-0-2", [0, 1])]


def test_connections_to_several_brokers_are_one_producer() -> None:
    parts = [
        part(0, publisher("s-0-1", 0, connectedSince="2026-01-01T00:00:01Z"), owner="b1"),
        part(1, publisher("s-1-1", 1, "/10.0.0.1:7000", connectedSince="2026-01-01T00:00:02Z"), owner="b2"),
        part(2, publisher("s-0-2", 2, connectedSince="2026-01-01T00:00:01Z"), owner="b1"),
    ]  # fmt: skip
    assert seen(parts) == [("s-0-1", [0, 1, 2])]


def test_names_that_clients_gave_stay_apart() -> None:
    parts = [part(0, publisher("left", 0)), part(1, publisher("right", 1))]
    assert seen(parts) == [("left", [0]), ("right", [1])]


def test_a_plain_topics_producers_stay_apart() -> None:
    (row, _) = detail.producers([part(None, publisher("s-0-1", 0), publisher("s-0-2", 1))])
    assert row["partitions"] == []


def test_a_partition_that_does_not_answer_is_shown_with_its_last_known_numbers() -> None:
    rows = [
        detail.part_row(topic_part, 100)
        for topic_part in (
            part(0, subscriptions={"s": subscription(7)}),
            silent(1, backlog=40, at=5),
        )
    ]
    assert [row["known"] for row in rows] == ["live", "last"]
    total = detail.summed(T, 2, rows, 1, 100)
    assert (total["backlog"], total["known"], total["at"]) == (47, "last", 5)


def test_unknown_numbers_are_not_zero() -> None:
    unknown = TopicPart(f"{T}-partition-1", 1, None, {}, True, None)
    rows = [detail.part_row(part(0), 100), detail.part_row(unknown, 100)]
    total = detail.summed(T, 2, rows, 0, 100)
    assert (total["backlog"], total["known"], rows[1]["loaded"]) == (None, "no", None)


def test_a_partition_that_was_never_created_has_no_backlog() -> None:
    unmade = TopicPart(f"{T}-partition-1", 1, None, {}, False, None)
    row = detail.part_row(unmade, 100)
    assert (row["backlog"], row["known"], row["loaded"]) == (0, "at_rest", False)


def test_positions_consumers_and_ledgers_have_their_partition() -> None:
    consumer = {"consumerName": "c", "availablePermits": 3}
    parts = [
        part(number, subscriptions={"s": subscription(number, consumers=[consumer])})._replace(
            internal={
                "cursors": {
                    "s": {"markDeletePosition": f"{number}:1", "readPosition": f"{number}:2"}
                },
                "ledgers": [{"ledgerId": number}],
            }
        )
        for number in (0, 1)
    ]
    (row,) = detail.subscriptions(parts).values()
    assert [consumer["partition"] for consumer in row["consumers"]] == [0, 1]
    assert [(at["partition"], at["mark_delete"], at["backlog"]) for at in row["positions"]] == [
        (0, "0:1", 0),
        (1, "1:1", 1),
    ]  # fmt: skip
    assert [
        ledger["partition"] for topic_part in parts for ledger in detail.ledgers(topic_part)
    ] == [0, 1]
    assert row["backlog"] == 1


def test_links_to_other_clusters_are_summed_over_the_partitions_that_answer() -> None:
    def link(**changes: Any) -> dict[str, Any]:
        sent = {"connected": True, "replicationBacklog": 3, "msgRateOut": 2.0, "blockedBy": None}
        return {**sent, "replicationDelayInSeconds": 1, "msgRateIn": 1.0, **changes}

    source = {"msgRateIn": 5.0, "connected": False, "replicationBacklog": 0}
    parts = [
        part(0, replication={"eu": link(), "ap": source}),
        part(1, replication={"eu": link(connected=False, blockedBy="no connection")}),
        silent(2),
    ]
    ap, eu = detail.replication(parts)
    assert (ap["cluster"], ap["sent"], ap["connected"], ap["msg_rate_in"]) == (
        "ap",
        False,
        False,
        5,
    )
    assert (eu["sent"], eu["connected"], eu["backlog"]) == (True, False, 6)
    assert (eu["blocked_by"], eu["delay_s"], eu["msg_rate_out"]) == ("no connection", 1, 4)
