"""Limits of unacknowledged messages, expiry and redelivery counts, frame by frame beside Apache's broker."""

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
    """Return both sides, with the limits set in the namespace."""
    for side in sides:
        assert side.put(REST) in (204, 409)
        assert side.post(f"{REST}/maxUnackedMessagesPerConsumer", EACH_MAX) == 204
        assert side.post(f"{REST}/maxUnackedMessagesPerSubscription", ALL_MAX) == 204
    return sides


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda run: str(run.__name__))
def test_both_sides_answer_the_same(
    limited: tuple[Side, Side], run: Callable[[Place], Any]
) -> None:
    name = run.__name__.replace("_", "-")

    def story(side: Side) -> Any:
        with closing(Place(side, f"persistent://{NAMESPACE}/{name}")) as place:
            return run(place)

    theirs, ours = on_both(limited, story)
    assert ours == theirs


Ids = list[dict[str, int]]


def ack(talk: Talk, consumer_id: int, *ids: dict[str, Any]) -> None:
    talk.wire.say("ack", consumer_id=consumer_id, ack_type=0, message_id=ids)


def messages(answers: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the messages' positions and redelivery counts."""
    return [
        (answer[2], answer[3].get("redelivery_count", 0))
        for answer in answers
        if answer[0] == "MESSAGE"
    ]


def standing(place: Place, name: str) -> Any:
    subscription = place.stats(name)
    consumers = [
        (c["unackedMessages"], c["blockedConsumerOnUnackedMsgs"]) for c in subscription["consumers"]
    ]
    totals = subscription["unackedMessages"], subscription["blockedSubscriptionOnUnackedMsgs"]
    return subscription["msgBacklog"], totals, sorted(consumers)


@scenario
def a_consumer_holds_so_many(place: Place) -> Any:
    ids, story = place.publish(25), []
    for kind in (SHARED, KEY_SHARED, EXCLUSIVE):
        talk, name = Talk(place), f"s{kind}"
        talk.subscribe(1, name, kind)
        talk.flow(1)
        story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, name)]
        for some in (ids[:4], ids[4:5], ids[5:6], ids[6:15]):
            ack(talk, 1, *some)
            story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, name)]
        talk.wire.say("redeliverUnacknowledgedMessages", consumer_id=1)
        story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, name)]
        talk.wire.close()
    return story


@scenario
def batches_count_as_their_messages(place: Place) -> Any:
    ids, talk, story = place.publish(8, batch=4), Talk(place), []
    talk.subscribe(1, kind=SHARED)
    talk.flow(1)
    story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, "s")]
    for message_id in ids[:3]:
        ack(talk, 1, message_id)
        story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, "s")]
    return story


@scenario
def a_subscription_holds_so_many(place: Place) -> Any:
    """Deliver with few permits: Apache's exceeds the limit by what its consumers receive at once."""
    ids, story, first, second = place.publish(40), [], Talk(place), Talk(place)
    for i, talk in enumerate((first, second)):
        talk.subscribe(i, kind=SHARED)
        talk.flow(i, ALL_MAX // 2)
        story.append(messages(talk.receive_until_quiet(QUIET_S)))
    story.append(standing(place, "s"))
    first.flow(0, 2)
    for some in ([], ids[8:13], ids[13:16], ids[7:8]):
        if some:
            ack(second, 1, *some)
        story += [
            messages(first.receive_until_quiet(QUIET_S)),
            messages(second.receive_until_quiet(QUIET_S)),
            standing(place, "s"),
        ]
    return story


def set_on_topic(place: Place, policy: str, value: int | None) -> None:
    """Set or remove a policy and return once it is in force, also on Apache's, which reads it from a topic."""
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
    story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, "s")]
    set_on_topic(place, "maxUnackedMessagesOnSubscription", 0)
    for i, limit in enumerate((20, 0)):
        set_on_topic(place, "maxUnackedMessagesOnConsumer", limit)
        ack(talk, 1, ids[i])
        story += [messages(talk.receive_until_quiet(HANDOVER_S)), standing(place, "s")]
        talk.flow(1, 10)
        story += [messages(talk.receive_until_quiet(QUIET_S)), standing(place, "s")]
    return story


def each_kind(place: Place, story: Callable[[Place, int], Any], *kinds: int) -> list[Any]:
    """Run the story on a topic for each subscription type, all at once."""
    with ThreadPoolExecutor(len(kinds)) as threads:
        places = [Place(place.side, f"{place.topic}-{kind}", place.wires) for kind in kinds]
        return list(threads.map(story, places, kinds))


@scenario
def what_expires_lets_others_come(place: Place) -> Any:
    """Deliver the messages behind expired ones: ours at once, Apache's when the client has acknowledged those it holds,
    and never on a Key_Shared subscription."""
    return each_kind(place, expiring, SHARED, EXCLUSIVE, FAILOVER)


def expiring(place: Place, kind: int) -> Any:
    ids, talk = place.publish(30), Talk(place)
    talk.subscribe(1, kind=kind)
    talk.flow(1)
    story = [messages(talk.receive_until_quiet(HANDOVER_S)), standing(place, "s")]
    for start, stop in ((0, 4), (4, 8), (8, 16)):
        left = 30 - stop
        story.append(place.rest("POST", "/subscription/s/expireMessages", ids[stop - 1])[0])
        wait_for(lambda left=left: place.stats("s")["msgBacklog"] == left, "expiry")  # type: ignore[misc]
        ack(talk, 1, *ids[start:stop])
        story += [messages(talk.receive_until_quiet(HANDOVER_S)), standing(place, "s")]
    return story


@scenario
def counts_of_redeliveries(place: Place) -> Any:
    return each_kind(place, counting, EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED)


def counting(place: Place, kind: int) -> Any:
    ids, first, second = place.publish(4), Talk(place), Talk(place)
    first.subscribe(1, kind=kind, consumer_name="a")
    first.flow(1)
    story: list[Any] = [messages(first.receive_until_quiet(HANDOVER_S))]
    for body in ({"message_ids": ids[1:3]}, {"message_ids": ids[2:3]}, {}):
        first.wire.say("redeliverUnacknowledgedMessages", consumer_id=1, **body)
        story.append(messages(first.receive_until_quiet(QUIET_S)))
    if kind != EXCLUSIVE:
        second.subscribe(2, kind=kind, consumer_name="b")
        second.flow(2)
        first.ask("close_consumer", consumer_id=1)
        story.append(("closed", messages(second.receive_until_quiet(HANDOVER_S))))
    first.wire.close()
    second.wire.close()
    wait_for(lambda: not place.stats("s")["consumers"], "no consumer attached")
    for what in ("all gone", "unloaded"):
        talk = Talk(place)
        talk.subscribe(3, kind=kind)
        talk.flow(3)
        story.append((what, messages(talk.receive_until_quiet(HANDOVER_S))))
        assert place.rest("PUT", "/unload")[0] == 204
        talk.wire.close()
    return story
