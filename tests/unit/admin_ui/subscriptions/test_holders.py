"""Holders of messages, and one message acknowledged, through the console's API."""

from collections.abc import Callable
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.base.errors import NotReady
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import SubscriptionType
from engine.rpc.operation import Operation
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Answer
from tests.unit.admin_ui.test_subscription_deletion import (
    PARTS,
    PATH,
    PLAIN,
    ask,
    call,
    connect,
    link,
    preview,
    publish,
)
from tests.unit.admin_ui.test_tenants import BenchLink

__all__ = ["call", "link"]
Call = Callable[..., Answer]


def holders(call: Call, topic: str, query: str = "") -> Any:
    answer = call("GET", f"{PATH}/{topic}/subscriptions/s%2F1/holders{query}")
    assert answer.status == 200, answer.json
    return answer.json


def first_of(answer: Any) -> str:
    return str(answer["unacked"][0]["id"])


def test_partitions_are_merged_and_bounded(link: BenchLink, call: Call) -> None:
    for number, part in enumerate(PARTS):
        publish(link, part, 4)
        connect(link, part, f"c{number}")
    answer = holders(call, "many", "?rows=5")
    assert (answer["type"], answer["entries"], answer["consumers_total"]) == ("Shared", 12, 3)
    assert len(answer["unacked"]) == 5
    published = [row["published"] for row in answer["unacked"]]
    assert published == sorted(published) == [1_000, 1_000, 1_000, 2_000, 2_000]
    assert {row["consumer"]["name"] for row in answer["unacked"][:3]} == {"c0", "c1", "c2"}


def test_a_silent_partition_makes_sums_unknown(
    link: BenchLink, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(link, PARTS[0], 2)
    connect(link, PARTS[0], "c")
    real = Engine.call

    async def refuse(engine: Engine, operation: Operation[Any, Any], args: Any) -> Any:
        if operation.name == "holders" and args.topic == PARTS[2]:
            raise NotReady("loading")
        return await real(engine, operation, args)

    monkeypatch.setattr(Engine, "call", refuse)
    answer = holders(call, "many")
    assert answer["missing"] == [{"partition": 2, "reason": "loading"}]
    assert answer["entries"] is None
    assert [consumer["entries"] for consumer in answer["consumers"]] == [2]


def test_a_typed_key_has_its_consumer_on_each_partition(link: BenchLink, call: Call) -> None:
    kind = SubscriptionType.KEY_SHARED
    for number, part in enumerate(PARTS):
        connect(link, part, f"c{number}", kind=kind, keys=KeyPolicy())
    answer = holders(call, "many", "?key=customer-17")
    assert [(row["partition"], row["consumer"]["name"]) for row in answer["keys"]] == [
        (0, "c0"),
        (1, "c1"),
        (2, "c2"),
    ]
    assert len({row["slot"] for row in answer["keys"]}) == 1
    refused = call("GET", f"{PATH}/many/subscriptions/s%2F1/holders?key={'k' * 9_000}")
    assert (refused.status, refused.json["field"]) == (400, "key")


def test_a_message_names_its_place_at_each_subscription(link: BenchLink, call: Call) -> None:
    publish(link, PLAIN, 2)
    connect(link, PLAIN, "c")
    message = first_of(holders(call, "plain"))
    answer = call("GET", f"{PATH}/plain/messages/{message}/holders").json
    (row,) = answer["subscriptions"]
    assert (row["name"], row["state"], row["consumer"]) == (
        *("s/1", "delivered"),
        {"name": "c", "address": "c:1"},
    )
    assert (answer["total"], answer["unread"], answer["deliver_at"]) == (1, [], None)
    assert call("GET", f"{PATH}/many/messages/{message}/holders").status == 400
    assert call("GET", f"{PATH}/plain/messages/1:x/holders").json["field"] == "message"
    assert call("GET", f"{PATH}/plain/messages/{message}999/holders").status == 404


def test_exactly_the_previewed_message_is_acknowledged_and_audited(
    link: BenchLink, call: Call
) -> None:
    publish(link, PLAIN, 3)
    connect(link, PLAIN, "c")
    message = holders(call, "plain")["unacked"][1]["id"]
    shown = preview(call, "plain", "acknowledge", message=message)
    assert (shown["state"], shown["consumer"]["name"], shown["message"]) == (
        *("delivered", "c"),
        message,
    )
    assert holders(call, "plain")["entries"] == 3  # a preview changes nothing
    AuditEntry.objects.all().delete()
    receipt = ask(call, "plain", "acknowledge", token=shown["token"]).json
    assert (receipt["message"], receipt["was"]) == (message, "held")
    left = [row["id"] for row in holders(call, "plain")["unacked"]]
    assert message not in left
    assert len(left) == 2
    (entry,) = AuditEntry.objects.all()
    assert (entry.operation, entry.status) == ("acknowledgeMessage", 200)
    again = ask(call, "plain", "acknowledge", token=shown["token"])
    assert (again.status, again.json["was"]) == (200, "acknowledged")
    refused = ask(call, "plain", "acknowledge", preview=True, message=message)
    assert refused.status == 409


def test_a_token_is_bound_to_its_subscription_and_partition(link: BenchLink, call: Call) -> None:
    publish(link, PLAIN, 1)
    publish(link, PARTS[1], 1)
    connect(link, PLAIN, "c")
    shown = preview(call, "plain", "acknowledge", message=first_of(holders(call, "plain")))
    refused = ask(call, "many", "acknowledge", token=shown["token"])
    assert (refused.status, refused.json["field"]) == (400, "token")
    for partition in (None, 3):
        refused = ask(call, "many", "acknowledge", preview=True, message="1:0", partition=partition)
        assert (refused.status, refused.json["field"]) == (400, "partition")
