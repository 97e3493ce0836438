"""The demo's messages: each has a key and a body in JSON, and the same at every time."""

import json

from gateway.standalone.demo import RUN, TOPICS, _runs


def test_a_demo_publishes_its_announced_messages_in_runs() -> None:
    for topic in TOPICS:
        runs = list(_runs(topic))
        assert sum(map(len, runs)) == topic.count
        assert max(map(len, runs)) == RUN
        messages = [message for run in runs for message in run]
        assert all(
            message.key and isinstance(json.loads(message.payload), dict) for message in messages
        )
        again = [message.payload for run in _runs(topic) for message in run]
        assert again == [message.payload for message in messages]
    orders = [message.key for run in _runs(TOPICS[0]) for message in run]
    assert orders.count("customer-00") > len(orders) / 4, (
        "something to find: a customer that has most"
    )
