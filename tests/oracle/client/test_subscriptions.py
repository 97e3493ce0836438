"""Subscribing, seeking and who gets what, frame by frame beside Apache's broker: the same in the same order."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.oracle.client.talk import EARLIEST_ID, LATEST_ID, NOTHING, Place, Talk, on_both
from tests.oracle.conftest import Side

SCENARIOS: list[Callable[[Place], Any]] = []
HANDOVER_S = 2.0
"""Longer than activeConsumerFailoverDelayTimeMillis."""
AUTO_SPLIT, STICKY = 0, 1


def scenario(run: Callable[[Place], Any]) -> Callable[[Place], Any]:
    SCENARIOS.append(run)
    return run


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda run: str(run.__name__))
def test_both_sides_answer_the_same(sides: tuple[Side, Side], run: Callable[[Place], Any]) -> None:
    name = run.__name__.replace("_", "-")
    topic = f"persistent://public/default/{name}"

    def story(side: Side) -> Any:
        with closing(Place(side, topic)) as place:
            return run(place)

    theirs, ours = on_both(sides, story)
    assert ours == theirs


def partitions(place: Place, count: int) -> list[Place]:
    assert place.rest("PUT", "/partitions", count)[0] == 204
    return [place.partition(i) for i in range(count)]


STANDBY = "is_active=False"


def came_and_went(place: Place, names: list[tuple[str, int]]) -> list[Any]:
    """Return what each consumer of a Failover subscription receives while they connect one after the other, then leave
    in the same order. That a new one is on standby is left out: Apache's broker sends it before the answer to
    SUBSCRIBE, where Go's client ignores it, ours behind the answer."""
    place.publish(2)
    talks: dict[int, Talk] = {}
    story: list[Any] = []

    def record(event: str, newcomer: int | None = None) -> None:
        time.sleep(HANDOVER_S)
        frames = {i: talk.receive_until_quiet(0.5) for i, talk in talks.items()}
        if newcomer is not None and frames[newcomer][:1]:
            frames[newcomer] = frames[newcomer][STANDBY in frames[newcomer][0] :]
        story.append((event, frames))

    for i, (name, priority) in enumerate(names):
        talks[i] = Talk(place)
        talks[i].subscribe(i, kind=2, consumer_name=name, priority_level=priority)
        talks[i].flow(i)
        if i:
            record(f"{name} connected", i)
        else:  # the first is active at once
            time.sleep(HANDOVER_S)
            story.append(
                [frame for frame in talks[0].receive_until_quiet(0.5) if frame[0] == "MESSAGE"]
            )
    stats = place.stats("s")
    story.append((stats["activeConsumerName"], [c["consumerName"] for c in stats["consumers"]]))
    for i in range(len(names) - 1):
        talks.pop(i).wire.close()
        record(f"{names[i][0]} left")
    return story


@scenario
def failover_of_a_plain_topic(place: Place) -> Any:
    return came_and_went(place, [("b", 0), ("a", 0), ("d", 1), ("c", 0), ("a", 0)])


@scenario
def failover_of_partitions(place: Place) -> Any:
    names = [("b", 0), ("a", 0), ("d", 1), ("c", 0)]
    return [came_and_went(partition, names) for partition in partitions(place, 2)]


def shares(place: Place) -> list[Any]:
    """Return the consumers of a Key_Shared subscription; how often a key was refused is left to the broker."""
    consumers = []
    for consumer in place.stats("s")["consumers"]:
        drains = [
            (drain["hash"], drain["unackMsgs"]) for drain in consumer.get("drainingHashes", [])
        ]
        cleared = consumer["drainingHashesClearedTotal"]
        consumers.append(
            (consumer["consumerName"], consumer["keyHashRangeArrays"], drains, cleared)
        )
    return consumers


@scenario
def keys_have_the_same_consumers(place: Place) -> Any:
    talk, story = Talk(place), []
    for i, name in enumerate(("alpha", "beta", "alpha", "gamma")):
        talk.subscribe(i, kind=3, consumer_name=name)
        story.append(shares(place))
    talk.ask("close_consumer", consumer_id=0)
    story.append(shares(place))
    talk.subscribe(9, kind=3, consumer_name="alpha")
    return [*story, shares(place)]


@scenario
def keys_that_move_drain(place: Place) -> Any:
    ids = place.publish(20, keys=10)
    talk, story = Talk(place), []
    talk.subscribe(1, kind=3, consumer_name="one")
    talk.flow(1)
    story.append(talk.receive_until_quiet())
    talk.subscribe(2, kind=3, consumer_name="two")
    talk.flow(2)
    place.publish(10, keys=10)
    story.append((sorted(map(str, talk.receive_until_quiet())), shares(place)))
    for half in (ids[::2], ids[1::2]):
        for message_id in half:
            talk.wire.say("ack", consumer_id=1, ack_type=0, message_id=[message_id])
        story.append((sorted(map(str, talk.receive_until_quiet())), shares(place)))
    return story


def policy(mode: int, *ranges: tuple[int, int], **more: Any) -> dict[str, Any]:
    hashes = [{"start": start, "end": end} for start, end in ranges]
    return {"keySharedMeta": {"keySharedMode": mode, "hashRanges": hashes, **more}}


@scenario
def keys_that_cannot_be_shared(place: Place) -> Any:
    talk = Talk(place)
    ask = (
        policy(STICKY),
        policy(STICKY, (5, 3)),
        policy(STICKY, (0, 10), (5, 20)),
        policy(STICKY, (0, 100), (300, 400)),
        policy(STICKY, (101, 299)),
        policy(STICKY, (1000, 2000), allowOutOfOrderDelivery=True),
        policy(AUTO_SPLIT),
        {},
    )
    story: list[Any] = [talk.subscribe(i, kind=3, **settings) for i, settings in enumerate(ask)]
    story += [talk.subscribe(20 + kind, kind=kind) for kind in (0, 1, 2)]
    (conflict,) = talk.subscribe(30, kind=3, **policy(STICKY, (50, 60)))
    story.append((conflict[:2], conflict[2][:28]))
    talk.wire.close()
    time.sleep(0.5)
    talk = Talk(place)
    story.append(talk.subscribe(1, kind=3, **policy(AUTO_SPLIT, allowOutOfOrderDelivery=True)))
    return [*story, talk.subscribe(2, kind=3), shares(place)]


def extremes(ids: list[dict[str, int]]) -> dict[str, dict[str, Any]]:
    first, last = ids[0]["ledgerId"], ids[-1]["ledgerId"]
    return {
        "earliest": EARLIEST_ID,
        "latest": LATEST_ID,
        "first": ids[0],
        "middle": ids[2],
        "last of its ledger": ids[4],
        "behind its ledger": {"ledgerId": first, "entryId": 5},
        "far behind its ledger": {"ledgerId": first, "entryId": 500},
        "before its ledger": {"ledgerId": last, "entryId": NOTHING},
        "within a batch": {**ids[8], "batch_index": 2, "batch_size": 4},
        "next": {"ledgerId": last, "entryId": 5},
        "far": {"ledgerId": last, "entryId": 500},
        "a ledger to come": {"ledgerId": last + 1000, "entryId": 0},
        "a ledger that was": {"ledgerId": 0, "entryId": 3},
    }


def then(talk: Talk, consumer_id: int, name: str, **body: Any) -> list[Any]:
    """Attach a consumer: return its position, first message, number of messages and position after them."""
    story: list[Any] = [talk.subscribe(consumer_id, name, **body)]
    story.append(talk.ask("getLastMessageId", consumer_id=consumer_id))
    talk.flow(consumer_id)
    got = [answer for answer in talk.receive_until_quiet(0.5) if answer[0] == "MESSAGE"]
    story += [got[:1], len(got), talk.ask("getLastMessageId", consumer_id=consumer_id)]
    return [*story, talk.place.stats(name)["msgBacklog"]]


@scenario
def readers_start_where_they_say(place: Place) -> Any:
    starts, talk = extremes(place.two_ledgers()), Talk(place)
    return [
        (what, initial, then(talk, 2 * i + initial, f"r{i}{initial}", durable=False,
                             start_message_id=start, initialPosition=initial))
        for i, (what, start) in enumerate(starts.items())
        for initial in (0, 1)
    ]  # fmt: skip


@scenario
def rolling_back(place: Place) -> Any:
    place.publish(3)
    talk, story = Talk(place), []
    for i, durable in enumerate((True, False)):
        more = {"durable": durable, "initialPosition": 0}
        story.append(then(talk, i, f"s{i}", start_message_rollback_duration_sec=3600, **more))
        talk.ask("close_consumer", consumer_id=i)
    story.append(then(talk, 5, "s", initialPosition=0))
    back = talk.ask(
        "subscribe", topic=place.topic, subscription="s", subType=0, consumer_id=6,
        start_message_rollback_duration_sec=3600,
    )  # fmt: skip
    return [*story, back, place.stats("s")["msgBacklog"]]


@scenario
def seeks_by_id(place: Place) -> Any:
    targets, talk, story = extremes(place.two_ledgers()), Talk(place), []
    talk.subscribe(1)
    for what, target in targets.items():
        sought = talk.ask("seek", consumer_id=1, message_id=target)
        story.append((what, sought, then(talk, 1, "s")))
    return story


@scenario
def seeks_by_time(place: Place) -> Any:
    begin = int(time.time() * 1000)
    place.publish(3)
    time.sleep(0.5)
    middle = int(time.time() * 1000)
    time.sleep(0.5)
    place.publish(3)
    talk, story = Talk(place), []
    talk.subscribe(1)
    for at in (0, begin - 10_000, middle, begin + 10**7, NOTHING):
        sought = talk.ask("seek", consumer_id=1, message_publish_time=at)
        story.append((sought, then(talk, 1, "s")))
    return story


@scenario
def seeks_with_several_consumers(place: Place) -> Any:
    ids, story = place.publish(8, keys=4), []
    for kind in (1, 3):
        first, second, name = Talk(place), Talk(place), f"s{kind}"
        for i, talk in enumerate((first, second)):
            talk.subscribe(i, name, kind)
        for i, talk in enumerate((first, second)):
            talk.flow(i, 4)
        held = len(first.receive_until_quiet()) + len(second.receive_until_quiet())
        story.append(
            (
                held,
                first.ask("seek", consumer_id=0, message_id=ids[1]),
                second.receive_until_quiet(),
            )
        )
        for i, talk in enumerate((first, second)):
            talk.subscribe(i, name, kind)
            talk.flow(i)
        story.append(
            sorted(
                answer[2] for answer in first.receive_until_quiet() + second.receive_until_quiet()
            )
        )
    return story


@scenario
def seeks_that_cannot_be(place: Place) -> Any:
    place.publish(1)
    talk = Talk(place)
    return [
        talk.ask("seek", consumer_id=7, message_id=EARLIEST_ID),
        talk.ask("seek", consumer_id=7),
        talk.subscribe(1),
        talk.ask("seek", consumer_id=1),
        talk.ask("seek", consumer_id=1, message_id=EARLIEST_ID),
        talk.ask("seek", consumer_id=1, message_id=EARLIEST_ID),
        talk.ask("getLastMessageId", consumer_id=1),
        talk.ask("unsubscribe", consumer_id=1),
    ]


@scenario
def seeks_on_an_empty_topic(place: Place) -> Any:
    talk, story = Talk(place), []
    story.append(then(talk, 1, "s"))
    for target in (EARLIEST_ID, LATEST_ID, {"ledgerId": 1 << 40, "entryId": 0}):
        story.append(talk.ask("seek", consumer_id=1, message_id=target))
        story.append(then(talk, 1, "s"))
    place.publish(2)
    return [*story, talk.receive_until_quiet(), talk.ask("getLastMessageId", consumer_id=1)]


@scenario
def seeks_on_a_terminated_topic(place: Place) -> Any:
    """Seek on a terminated topic: Apache's does not report the end to its clients after a seek to it; ours does."""
    ids = place.publish(3)
    talk = Talk(place, "Pulsar-Java-v4.0.8")
    story = [then(talk, 1, "s"), place.rest("POST", "/terminate")[0]]
    for message_id in ids:
        talk.wire.say("ack", consumer_id=1, ack_type=0, message_id=[message_id])
    story.append(talk.receive_until_quiet(2.0))
    far = {"ledgerId": ids[0]["ledgerId"], "entryId": 900}
    for target in (EARLIEST_ID, ids[1], LATEST_ID, far):
        story.append(talk.ask("seek", consumer_id=1, message_id=target)[-1:])
        story.append(then(talk, 1, "s"))
        talk.receive_until_quiet()
    return story


@scenario
def unsubscribing(place: Place) -> Any:
    place.publish(2)
    story: list[Any] = []
    for kind in (1, 3):
        first, second, name = Talk(place), Talk(place), f"s{kind}"
        first.subscribe(1, name, kind)
        second.subscribe(2, name, kind)
        story.append(first.ask("unsubscribe", consumer_id=1))
        story.append((second.receive_until_quiet(), first.ask("getLastMessageId", consumer_id=1)))
        first.subscribe(1, name, kind)
        story.append(
            (first.ask("unsubscribe", consumer_id=1, force=True), second.receive_until_quiet())
        )
        story.append(place.stats(name))
    talk = Talk(place)
    story += [talk.subscribe(5, "reader", durable=False), talk.ask("unsubscribe", consumer_id=5)]
    story += [place.stats("reader"), talk.subscribe(6, "x")]
    story.append(place.rest("DELETE", "/subscription/x"))
    return [*story, place.rest("DELETE", "/subscription/x?force=true"), talk.receive_until_quiet()]


@scenario
def given_back_with_an_epoch(place: Place) -> Any:
    ids, story = place.publish(6), []
    for kind in range(4):
        talk = Talk(place)
        talk.subscribe(1, f"s{kind}", kind, consumer_epoch=0)
        talk.flow(1)
        story.append(
            [answer for answer in talk.receive_until_quiet(HANDOVER_S) if answer[0] == "MESSAGE"]
        )
        far = {**ids[0], "entryId": 99}
        some = {"message_ids": [ids[1], ids[3], far]}
        for body in (some, {"consumer_epoch": 3}, {"consumer_epoch": 2}, {}):
            talk.wire.say("redeliverUnacknowledgedMessages", consumer_id=1, **body)
            story.append(talk.receive_until_quiet())
    return story


@scenario
def options_that_are_kept(place: Place) -> Any:
    def shown(name: str) -> Any:
        stats = place.stats(name)
        kept = ("isReplicated", "replicated", "durable", "subscriptionProperties")
        return [stats[option] for option in kept], [c["metadata"] for c in stats["consumers"]]

    def pairs(name: str, value: str) -> list[dict[str, str]]:
        return [{"key": name, "value": value}]

    talk, status = Talk(place), "/subscription/s/replicatedSubscriptionStatus"
    more = {"metadata": pairs("k", "v"), "subscription_properties": pairs("p", "1")}
    story = [talk.subscribe(1, "s", replicate_subscription_state=True, **more), shown("s")]
    long = talk.subscribe(2, "long", metadata=pairs("k", "x" * 1024))
    story.append([answer[:2] for answer in long])
    talk.ask("close_consumer", consumer_id=1)
    again = {"subscription_properties": pairs("p", "9"), "replicate_subscription_state": False}
    story += [talk.subscribe(3, "s", **again), shown("s")]
    story.append([answer == {place.topic: True} for answer in place.rest("GET", status)])
    assert place.rest("PUT", "/unload")[0] == 204
    story += [shown("s"), place.rest("POST", status, False)[0], shown("s")]
    talk = Talk(place)
    talk.subscribe(1, "reader", durable=False, replicate_subscription_state=True)
    return [*story, shown("reader")]


@scenario
def moved_by_administrators(place: Place) -> Any:
    ids, talk, story = place.two_ledgers(), Talk(place), []
    last = ids[-1]["ledgerId"]

    def stands(name: str) -> Any:
        return [answer[0] for answer in talk.receive_until_quiet(0.5)], place.stats(name)[
            "msgBacklog"
        ]

    talk.subscribe(1, "a", 1)
    talk.flow(1, 3)
    talk.receive_until_quiet()
    talk.wire.say("ack", consumer_id=1, ack_type=0, message_id=[ids[1]])
    for count in (0, 1, 2, 100):
        skipped = place.rest("POST", f"/subscription/a/skip/{count}")[0]
        story.append((count, skipped, stands("a")))
    for target in (ids[2], {**ids[2], "excluded": True}, {"ledgerId": last, "entryId": 99},
                {"ledgerId": last + 1000, "entryId": 0}, "earliest", "latest"):  # fmt: skip
        moved = place.rest("POST", "/subscription/a/resetcursor", target)[0]
        story.append((moved, stands("a")))
        talk.subscribe(1, "a", 1)
    place.rest("PUT", "/subscription/b", "earliest")
    for target in (ids[2], ids[0], {"ledgerId": last, "entryId": 99}, "latest"):
        expired = place.rest("POST", "/subscription/b/expireMessages", target)
        time.sleep(0.5)
        story.append((expired, stands("b")))
    for target in (None, ids[3], {"ledgerId": last, "entryId": 3}, "latest"):
        status, result = place.rest("POST", "/subscription/b/analyzeBacklog", target)
        ends = [result.pop(name, None) is None for name in ("firstMessageId", "lastMessageId")]
        story.append((status, result, ends))
    story.append(place.rest("POST", "/subscription/none/analyzeBacklog"))
    story.append(place.rest("POST", "/all_subscription/expireMessages/3600")[0])
    time.sleep(2.0)
    place.rest("POST", "/subscription/a/resetcursor", "earliest")
    return [*story, place.rest("POST", "/subscription/a/expireMessages/1")[0], stands("a")]
