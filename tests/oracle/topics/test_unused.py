"""Unused topics are deleted, and topics with too large or too old a backlog refuse producers or drop messages, like
Apache's broker: both check every second."""

import json
import time
from typing import Any

from tests.oracle.client.talk import Place, Talk, on_both, wait_for
from tests.oracle.conftest import Side
from tests.support.raw_client import Wire

MODES = {
    "none": ("delete_when_no_subscriptions", True),
    "caught-up": ("delete_when_subscriptions_caught_up", True),
    "off": ("delete_when_no_subscriptions", False),
}
IDLE_S = 2
SIZE, AGE = "destination_storage", "message_age"
LIMITS = {SIZE: {"limitSize": 10_000, "limitTime": -1}, AGE: {"limitSize": -1, "limitTime": 2}}
ACTIONS = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
ALWAYS = {"backlog", "own", "parts-partition-0", "parts-partition-1"}
KEPT = {
    "none": {*ALWAYS, "consumer", "left"},
    "caught-up": ALWAYS,
    "off": {*ALWAYS, "bare", "consumer", "left", "producer", "published", "reader"},
}
USED = {
    "none": {*KEPT["none"], "producer", "reader"},
    "caught-up": {*ALWAYS, "producer"},
    "off": KEPT["off"],
}
SUB, READ = "/subscription/s", {"durable": False}


def made(side: Side, namespace: str) -> str:
    """Create the namespace and return its path."""
    path = f"/admin/v2/namespaces/public/{namespace}"
    assert side.put(path) in (204, 409)
    return path


def topics(side: Side, namespace: str) -> set[str]:
    status, body = side.call("GET", f"/admin/v2/persistent/public/{namespace}")
    assert status == 200, body
    return {name.rpartition("/")[2] for name in json.loads(body)}


def policy(mode: str, active: bool) -> dict[str, Any]:
    return {
        "inactiveTopicDeleteMode": mode,
        "maxInactiveDurationSeconds": IDLE_S,
        "deleteWhileInactive": active,
    }


def unused(side: Side) -> dict[str, set[str]]:
    """Return the remaining topics, first while some are used in all ways, then after all clients have left."""
    wires: list[Any] = []
    using: list[Talk] = []

    def place(mode: str, name: str) -> Place:
        return Place(side, f"persistent://public/unused-{mode}/{name}", wires)

    def create(topic: Place) -> Place:
        assert topic.rest("PUT", "")[0] == 204
        return topic

    def subscribed(mode: str, name: str, **body: Any) -> None:
        using.append(Talk(place(mode, name)))
        using[-1].subscribe(1, **body)

    for mode, value in MODES.items():
        path = made(side, f"unused-{mode}")
        for name in ("published", "backlog"):
            topic = create(place(mode, name))
            if name == "backlog":
                assert topic.rest("PUT", SUB, "earliest")[0] == 204
            topic.publish(1)
        # Apache's deletes them under their consumers, who reconnect and create them again.
        if mode != "caught-up":
            subscribed(mode, "consumer")
            subscribed(mode, "reader", **READ)
        using.append(Talk(place(mode, "producer")))
        using[-1].ask("producer", topic=using[-1].place.topic, producer_id=1)
        subscribed(mode, "left")
        using.pop().wire.close()
        own = create(place(mode, "own"))
        assert own.rest("POST", "/inactiveTopicPolicies", policy(*MODES["off"]))[0] == 204
        assert place(mode, "parts").rest("PUT", "/partitions", 2)[0] == 204
        create(place(mode, "bare"))
        assert side.post(f"{path}/inactiveTopicPolicies", policy(*value)) == 204
    wait_for(lambda: left(side) == USED, f"{USED} of {side.name}, there are {left(side)}")
    for talk in using:
        talk.wire.close()
    wait_for(lambda: left(side) == KEPT, f"{KEPT} of {side.name}, there are {left(side)}")
    time.sleep(IDLE_S + 1)
    return left(side)


def left(side: Side) -> dict[str, set[str]]:
    return {mode: topics(side, f"unused-{mode}") for mode in MODES}


def test_unused_topics_are_deleted_alike(sides: tuple[Side, Side]) -> None:
    assert on_both(sides, unused) == (KEPT, KEPT)


def beyond(side: Side, kind: str, action: str, wires: list[Wire]) -> tuple[Place, Talk]:
    """Create a topic whose backlog is, or soon will be, beyond its quota, with an attached producer."""
    namespace = f"{kind}-{action}".replace("_", "-")
    path = made(side, namespace)
    place = Place(side, f"persistent://public/{namespace}/t", wires)
    wait_for(lambda: place.rest("PUT", "")[0] in (204, 409), f"{place.topic} of {side.name}")
    assert place.rest("PUT", SUB, "earliest")[0] == 204
    there = Talk(place)
    there.ask("producer", topic=place.topic, producer_id=1)
    place.publish(20, batch=100)
    value = {**LIMITS[kind], "policy": action}
    assert side.post(f"{path}/backlogQuota?backlogQuotaType={kind}", value) == 204
    return place, there


def producers_of(place: Place, there: Talk, kind: str, action: str) -> Any:
    """Return the answers to an attached producer and to later ones, the backlog, and the answers once it is gone."""
    story: list[Any] = []
    if action == "consumer_backlog_eviction":
        most = 10 if kind == SIZE else 0
        wait_for(lambda: place.stats("s")["msgBacklog"] <= most, "eviction")
        kept = place.stats("s")["msgBacklog"]
        story.append((there.receive_until_quiet(), kept >= 8 or not most))
    else:
        there.wire.patience(60)  # Apache's may stand still for half a minute
        story.append(there.frame()["type"])
    story.append(come(place))
    assert place.rest("POST", f"{SUB}/skip_all")[0] == 204
    wait_for(lambda: come(place)[0][0] == "PRODUCER_SUCCESS", "a producer that is let in")
    return story


def quotas(side: Side) -> Any:
    """Create the topics one after the other: making several at once sometimes stops Apache's for half a minute."""
    asked = [(kind, action) for kind in LIMITS for action in ACTIONS]
    wires: list[Wire] = []
    try:
        made = {case: beyond(side, *case, wires) for case in asked}
        return {case: producers_of(*made[case], *case) for case in asked}
    finally:
        for wire in wires:
            wire.close()


def test_backlog_quotas_are_held_alike(sides: tuple[Side, Side]) -> None:
    theirs, ours = on_both(sides, quotas)
    assert ours == theirs


def come(place: Place) -> Any:
    """Return the answers to a new producer."""
    talk = Talk(place)
    try:
        return [answer[:2] for answer in talk.ask("producer", topic=place.topic, producer_id=2)]
    finally:
        talk.wire.close()
