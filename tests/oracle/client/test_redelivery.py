"""How much may be unacknowledged, what expires and how often a message came, frame by frame beside Apache's broker."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.oracle.client.talk import Place, Talk, on_both, wait_for
from tests.oracle.conftest import Side

NAMESPACE = "public/limits"
REST = f"/admin/v2/namespaces/{NAMESPACE}"
EACH_MAX, ALL_MAX = 10, 16
"""Messages that a consumer, and a subscription, may have out."""
QUIET_S = 0.4
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)
HANDOVER_S = 1.5
"""Longer than activeConsumerFailoverDelayTimeMillis."""
SCENARIOS: list[Callable[[Place], Any]] = []


def scenario(run: Callable[[Place], Any]) -> Callable[[Place], Any]:
    SCENARIOS.append(run)
    return run


@pytest.fixture(scope="module")
def limited(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    """Both, with the limits in the namespace."""
    for side in sides:
        assert side.put(REST) in (204, 409)
        assert side.post(f"{REST}/maxUnackedMessagesPerConsumer", EACH_MAX) == 204
        assert side.post(f"{REST}/maxUnackedMessagesPerSubscription", ALL_MAX) == 204
    return sides


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda run: str(run.__name__))
def test_both_sides_tell_the_same(limited: tuple[Side, Side], run: Callable[[Place], Any]) -> None:
    name = run.__name__.replace("_", "-")

    def story(side: Side) -> Any:
        with closing(Place(side, f"persistent://{NAMESPACE}/{name}")) as place:
            return run(place)

    theirs, ours = on_both(limited, story)
    assert ours == theirs


Ids = list[dict[str, int]]


def ack(talk: Talk, consumer_id: int, *ids: dict[str, Any]) -> None:
    talk.wire.say("ack", consumer_id=consumer_id, ack_type=0, message_id=ids)


def told(heard: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Messages alone: where each stands and how often it came before."""
    return [(each[2], each[3].get("redelivery_count", 0)) for each in heard if each[0] == "MESSAGE"]


def standing(place: Place, name: str) -> Any:
    found = place.stats(name)
    each = [(c["unackedMessages"], c["blockedConsumerOnUnackedMsgs"]) for c in found["consumers"]]
    whole = found["unackedMessages"], found["blockedSubscriptionOnUnackedMsgs"]
    return found["msgBacklog"], whole, sorted(each)


@scenario
def a_consumer_holds_so_many(place: Place) -> Any:
    ids, story = place.publish(25), []
    for kind in (SHARED, KEY_SHARED, EXCLUSIVE):
        talk, name = Talk(place), f"s{kind}"
        talk.subscribe(1, name, kind)
        talk.flow(1)
        story += [told(talk.heard(QUIET_S)), standing(place, name)]
        for some in (ids[:4], ids[4:5], ids[5:6], ids[6:15]):
            ack(talk, 1, *some)
            story += [told(talk.heard(QUIET_S)), standing(place, name)]
        talk.wire.say("redeliverUnacknowledgedMessages", consumer_id=1)
        story += [told(talk.heard(QUIET_S)), standing(place, name)]
        talk.wire.close()
    return story


@scenario
def batches_count_as_their_messages(place: Place) -> Any:
    ids, talk, story = place.publish(8, batch=4), Talk(place), []
    talk.subscribe(1, kind=SHARED)
    talk.flow(1)
    story += [told(talk.heard(QUIET_S)), standing(place, "s")]
    for one in ids[:3]:
        ack(talk, 1, one)
        story += [told(talk.heard(QUIET_S)), standing(place, "s")]
    return story


@scenario
def a_subscription_holds_so_many(place: Place) -> Any:
    """With few permits: Apache's goes beyond the limit by what its consumers take at once."""
    ids, story, one, two = place.publish(40), [], Talk(place), Talk(place)
    for i, talk in enumerate((one, two)):
        talk.subscribe(i, kind=SHARED)
        talk.flow(i, ALL_MAX // 2)
        story.append(told(talk.heard(QUIET_S)))
    story.append(standing(place, "s"))
    one.flow(0, 2)
    for some in ([], ids[8:13], ids[13:16], ids[7:8]):
        if some:
            ack(two, 1, *some)
        story += [told(one.heard(QUIET_S)), told(two.heard(QUIET_S)), standing(place, "s")]
    return story


def set_on_topic(place: Place, policy: str, value: int | None) -> None:
    """In force when this returns, also with Apache's, which reads it from a topic."""
    if value is None:
        assert place.rest("DELETE", f"/{policy}")[0] == 204
    else:
        assert place.rest("POST", f"/{policy}", value)[0] == 204
    wait_for(lambda: place.rest("GET", f"/{policy}")[1] in (value, ""), policy)
    time.sleep(0.5)


@scenario
def limits_change_while_they_hold(place: Place) -> Any:
    """Ours heeds a higher limit at once, Apache's with the next acknowledgement."""
    ids, talk, story = place.publish(60), Talk(place), []
    talk.subscribe(1, kind=SHARED)
    talk.flow(1, 12)
    story += [told(talk.heard(QUIET_S)), standing(place, "s")]
    set_on_topic(place, "maxUnackedMessagesOnSubscription", 0)
    for i, each in enumerate((20, 0)):
        set_on_topic(place, "maxUnackedMessagesOnConsumer", each)
        ack(talk, 1, ids[i])
        story += [told(talk.heard(HANDOVER_S)), standing(place, "s")]
        talk.flow(1, 10)
        story += [told(talk.heard(QUIET_S)), standing(place, "s")]
    return story


def each_kind(place: Place, story: Callable[[Place, int], Any], *kinds: int) -> list[Any]:
    """A topic for each type of subscription, all at once."""
    with ThreadPoolExecutor(len(kinds)) as threads:
        places = [Place(place.side, f"{place.topic}-{kind}", place.wires) for kind in kinds]
        return list(threads.map(story, places, kinds))


@scenario
def what_expires_lets_others_come(place: Place) -> Any:
    """With ours at once, with Apache's when the client has acknowledged what it still holds of it, and never on a
    Key_Shared subscription."""
    return each_kind(place, expiring, SHARED, EXCLUSIVE, FAILOVER)


def expiring(place: Place, kind: int) -> Any:
    ids, talk = place.publish(30), Talk(place)
    talk.subscribe(1, kind=kind)
    talk.flow(1)
    story = [told(talk.heard(HANDOVER_S)), standing(place, "s")]
    for start, stop in ((0, 4), (4, 8), (8, 16)):
        left = 30 - stop
        story.append(place.rest("POST", "/subscription/s/expireMessages", ids[stop - 1])[0])
        wait_for(lambda left=left: place.stats("s")["msgBacklog"] == left, "expiry")  # type: ignore[misc]
        ack(talk, 1, *ids[start:stop])
        story += [told(talk.heard(HANDOVER_S)), standing(place, "s")]
    return story


@scenario
def counts_of_redeliveries(place: Place) -> Any:
    return each_kind(place, counting, EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED)


def counting(place: Place, kind: int) -> Any:
    ids, one, two = place.publish(4), Talk(place), Talk(place)
    one.subscribe(1, kind=kind, consumer_name="a")
    one.flow(1)
    story: list[Any] = [told(one.heard(HANDOVER_S))]
    for body in ({"message_ids": ids[1:3]}, {"message_ids": ids[2:3]}, {}):
        one.wire.say("redeliverUnacknowledgedMessages", consumer_id=1, **body)
        story.append(told(one.heard(QUIET_S)))
    if kind != EXCLUSIVE:
        two.subscribe(2, kind=kind, consumer_name="b")
        two.flow(2)
        one.ask("close_consumer", consumer_id=1)
        story.append(("closed", told(two.heard(HANDOVER_S))))
    one.wire.close()
    two.wire.close()
    wait_for(lambda: not place.stats("s")["consumers"], "nobody there")
    for what in ("all gone", "unloaded"):
        talk = Talk(place)
        talk.subscribe(3, kind=kind)
        talk.flow(3)
        story.append((what, told(talk.heard(HANDOVER_S))))
        assert place.rest("PUT", "/unload")[0] == 204
        talk.wire.close()
    return story
