"""Links of a result to pages of the console."""

from typing import Any

from spark_jobs.jobs.kit.links import EACH_MAX, links_of
from spark_jobs.jobs.kit.tables import table

ORDERS = "persistent://public/default/orders"


def linked(*tables: dict[str, Any], **named: str) -> dict[str, str]:
    links = links_of({"input": named, "tables": tables})
    return {link["path"]: link["text"] for link in links}


def rows_of(*rows: dict[str, Any]) -> dict[str, Any]:
    columns = [(key, key, "string") for key in rows[0]]
    return table("t", "T", columns, [list(row.values()) for row in rows])


def test_topics_subscriptions_messages_ledgers_and_bookies_have_links() -> None:
    behind = rows_of({"topic": ORDERS, "subscription": "ship/it", "first": "5:17", "ledger": 5})
    assert linked(behind, rows_of({"bookie": "10.0.0.1:3181"}), topic=ORDERS) == {
        "/t/public/default/orders/overview": "Topic public/default/orders",
        "/t/public/default/orders/subscriptions#ship%2Fit": (
            "Subscription ship/it of public/default/orders"
        ),
        "/t/public/default/orders/messages/5%3A17": "Message 5:17 of public/default/orders",
        "/t/public/default/orders/messages?position=5:0": "Ledger 5 of public/default/orders",
        "/bookies": "Bookies",
    }


def test_a_dead_letters_subscription_is_that_of_its_origin() -> None:
    letters = f"{ORDERS}-ship-DLQ"
    row = {"topic": letters, "origin": ORDERS, "subscription": "ship", "position": "7:0:3"}
    assert list(linked(rows_of(row))) == [
        "/t/public/default/orders/overview",
        "/t/public/default/orders/subscriptions#ship",
        "/t/public/default/orders-ship-DLQ/messages/7%3A0%3A3",
    ]


def test_groups_of_dead_letters_are_handed_to_redrive() -> None:
    rows = [{"topic": f"{ORDERS}-DLQ-partition-{i}", "shape": "text"} for i in range(2)]
    assert linked(rows_of(*rows))[
        "/dead-letters?topic=persistent%3A%2F%2Fpublic%2Fdefault%2Forders-DLQ"
    ] == ("Redrive the dead letters of public/default/orders-DLQ")


def test_of_each_kind_the_first_few_are_linked_once() -> None:
    names = [f"persistent://public/default/t {i // 2}" for i in range(20)]
    paths = list(linked(rows_of(*({"topic": name} for name in names))))
    assert paths == [f"/t/public/default/t%20{i}/overview" for i in range(EACH_MAX)]


def test_other_texts_have_no_link() -> None:
    rows = rows_of(
        {"topic": "orders", "position": "5:17", "first": 3},
        {"topic": "odd://a/b/c", "position": None, "first": None},
        {"topic": ORDERS, "position": "behind 5:17", "first": 3},
    )
    assert list(linked(rows, namespace="public/default")) == ["/t/public/default/orders/overview"]
