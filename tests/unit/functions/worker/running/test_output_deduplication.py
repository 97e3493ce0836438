"""The output topic of an effectively-once function drops repeated messages, and no other topic is changed."""

from typing import Any, cast

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import SET_TOPIC_POLICY, TOPIC_POLICIES, SetTopicPolicy
from engine.admin.client import AdminClient
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.running.output_deduplication import POLICY, OutputDeduplication
from engine.tenancy.policies.table import POLICIES

OUT = "persistent://t/n/out"


class Brokers:
    def __init__(self, *, on: bool) -> None:
        self.on = on
        self.changes: list[SetTopicPolicy] = []

    async def call(self, operation: Any, arguments: Any) -> Any:
        if operation is TOPIC_POLICIES:
            assert isinstance(arguments, OnTopic)
            return {POLICY: {"value": self.on}}
        assert operation is SET_TOPIC_POLICY
        self.changes.append(arguments)
        return {}


def details(guarantee: pb.ProcessingGuarantees, output: str = OUT) -> pb.FunctionDetails:
    made = pb.FunctionDetails(processingGuarantees=guarantee)
    made.sink.topic = output
    return made


async def changed(brokers: Brokers, function: pb.FunctionDetails) -> list[SetTopicPolicy]:
    await OutputDeduplication(cast("AdminClient", brokers))(function)
    return brokers.changes


async def test_deduplication_is_switched_on_for_effectively_once() -> None:
    (change,) = await changed(Brokers(on=False), details(pb.ProcessingGuarantees.EFFECTIVELY_ONCE))
    assert (str(change.topic), change.name, change.value) == (OUT, POLICY, True)


def test_the_policy_is_one_of_the_table() -> None:
    assert POLICY in {policy.name for policy in POLICIES}


@pytest.mark.parametrize(
    ("function", "on"),
    [
        (details(pb.ProcessingGuarantees.EFFECTIVELY_ONCE), True),
        (details(pb.ProcessingGuarantees.EFFECTIVELY_ONCE, ""), False),
        (details(pb.ProcessingGuarantees.ATLEAST_ONCE), False),
    ],
)
async def test_other_topics_are_left_alone(function: pb.FunctionDetails, on: bool) -> None:
    assert await changed(Brokers(on=on), function) == []
