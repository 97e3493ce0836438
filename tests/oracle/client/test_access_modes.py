"""Producers' access modes: the official client observes the same from both brokers."""

import contextlib
import json
import queue
import threading
import time
from typing import Any

import pulsar
import pytest

from tests.oracle.conftest import Side

Mode = pulsar.ProducerAccessMode
MODES = (Mode.Shared, Mode.Exclusive, Mode.WaitForExclusive, Mode.ExclusiveWithFencing)
OUTDONE: dict[Any, Any] = {
    Mode.WaitForExclusive: ("Timeout", ([("two", "ExclusiveWithFencing")], 1)),
    Mode.ExclusiveWithFencing: ("ProducerFenced", ([], 0)),
}
"""Result on Apache's of a producer of each mode that was fenced: it waits in line and continues as if nothing had
happened, or fences the new producer in turn, until none is left. Ours refuses it by its epoch."""


class Actor:
    """A client of its own, as another process would have."""

    def __init__(self, side: Side, topic: str, name: str) -> None:
        self.client = pulsar.Client(
            side.url,
            operation_timeout_seconds=20,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        self.topic = topic
        self.name = name
        self.producer: Any = None
        self.results: queue.Queue[Any] = queue.Queue()

    def asks(self, mode: Any) -> str:
        """Create the producer and return "in", or the name of the error."""
        try:
            self.producer = self.client.create_producer(
                self.topic, producer_name=self.name, access_mode=mode, send_timeout_millis=5_000
            )
        except pulsar.PulsarException as error:
            return type(error).__name__
        return "in"

    def sends(self) -> str:
        try:
            self.producer.send(self.name.encode())
        except pulsar.PulsarException as error:
            return type(error).__name__
        return "sent"

    def leaves(self) -> None:
        if self.producer is not None:
            with contextlib.suppress(pulsar.PulsarException):
                self.producer.close()
        self.client.close()


def stats(side: Side, topic: str) -> tuple[list[tuple[str, str]], int]:
    status, body = side.call("GET", f"/admin/v2/persistent/{topic.split('://')[1]}/stats")
    assert status == 200
    topic_stats = json.loads(body)
    return (
        sorted(
            (publisher["producerName"], publisher["accessMode"])
            for publisher in topic_stats["publishers"]
        ),
        topic_stats["waitingPublishers"],
    )


def pair(side: Side, first: Any, second: Any) -> list[Any]:
    """Attach a producer of the first mode, then another of the second, and return what happened."""
    topic = f"persistent://public/default/modes-{first.name}-{second.name}"
    first_actor, second_actor = Actor(side, topic, "one"), Actor(side, topic, "two")
    story = [(first.name, first_actor.asks(first), first_actor.sends())]
    if second is Mode.WaitForExclusive:
        return _waits(side, topic, first_actor, second_actor, story)
    story.append((second.name, second_actor.asks(second)))
    if second_actor.producer is not None:
        story.append(("two", second_actor.sends()))
    story.append(("one", first_actor.sends()))
    story.append(stats(side, topic))
    first_actor.leaves()
    second_actor.leaves()
    return story


def _waits(side: Side, topic: str, first: Actor, second: Actor, story: list[Any]) -> list[Any]:
    thread = threading.Thread(target=lambda: second.results.put(second.asks(Mode.WaitForExclusive)))
    thread.start()
    deadline = time.monotonic() + 20
    while stats(side, topic)[1] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    story += [("waiting", second.results.empty()), ("one", first.sends()), stats(side, topic)]
    first.leaves()
    if story[0][0] == "Shared":  # Apache's never gives it to who waited for shared producers
        second.client.close()
        thread.join(30)
        return story
    story.append(("turn", second.results.get(timeout=30), second.sends(), stats(side, topic)))
    thread.join(30)
    second.leaves()
    return story


@pytest.mark.parametrize("first", MODES, ids=lambda mode: str(mode.name))
def test_the_second_producer_receives_the_same_answer(sides: tuple[Side, Side], first: Any) -> None:
    for second in MODES:
        theirs, ours = (pair(side, first, second) for side in sides)
        if second is Mode.ExclusiveWithFencing and first in OUTDONE:
            last, left = OUTDONE[first]
            assert theirs[3:] == [("one", last), left]
            assert ours[3:] == [("one", "ProducerFenced"), ([("two", second.name)], 0)]
            theirs, ours = theirs[:3], ours[:3]
        assert ours == theirs
