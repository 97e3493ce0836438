"""Who publishes when some want a topic to themselves: the official client sees the same from both brokers."""

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
"""What happens with Apache's to a producer of each mode that was shut out: it waits in line to send on as if it had
never been, or shuts the new one out in its turn, until nobody is left. With ours it is refused by its epoch."""


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
        self.told: queue.Queue[Any] = queue.Queue()

    def asks(self, mode: Any) -> str:
        """Whether it may publish, or why not."""
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
    found = json.loads(body)
    return (
        sorted((one["producerName"], one["accessMode"]) for one in found["publishers"]),
        found["waitingPublishers"],
    )


def pair(side: Side, first: Any, second: Any) -> list[Any]:
    """One is there; another comes, in another mode."""
    topic = f"persistent://public/default/modes-{first.name}-{second.name}"
    one, two = Actor(side, topic, "one"), Actor(side, topic, "two")
    story = [(first.name, one.asks(first), one.sends())]
    if second is Mode.WaitForExclusive:
        return _waits(side, topic, one, two, story)
    story.append((second.name, two.asks(second)))
    if two.producer is not None:
        story.append(("two", two.sends()))
    story.append(("one", one.sends()))
    story.append(stats(side, topic))
    one.leaves()
    two.leaves()
    return story


def _waits(side: Side, topic: str, one: Actor, two: Actor, story: list[Any]) -> list[Any]:
    thread = threading.Thread(target=lambda: two.told.put(two.asks(Mode.WaitForExclusive)))
    thread.start()
    deadline = time.monotonic() + 20
    while stats(side, topic)[1] == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    story += [("waiting", two.told.empty()), ("one", one.sends()), stats(side, topic)]
    one.leaves()
    if story[0][0] == "Shared":  # Apache's never gives it to who waited for shared producers
        two.client.close()
        thread.join(30)
        return story
    story.append(("turn", two.told.get(timeout=30), two.sends(), stats(side, topic)))
    thread.join(30)
    two.leaves()
    return story


@pytest.mark.parametrize("first", MODES, ids=lambda mode: str(mode.name))
def test_whoever_comes_second_is_told_the_same(sides: tuple[Side, Side], first: Any) -> None:
    for second in MODES:
        theirs, ours = (pair(side, first, second) for side in sides)
        if second is Mode.ExclusiveWithFencing and first in OUTDONE:
            last, left = OUTDONE[first]
            assert theirs[3:] == [("one", last), left]
            assert ours[3:] == [("one", "ProducerFenced"), ([("two", second.name)], 0)]
            theirs, ours = theirs[:3], ours[:3]
        assert ours == theirs
