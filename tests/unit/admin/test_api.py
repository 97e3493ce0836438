"""Arguments of administrative operations: every refusal names the field."""

import json
from typing import Any

import pytest

from engine.admin import api
from engine.admin.operation import Operation, parse_arguments, to_json
from engine.base.errors import AdminError
from engine.base.names import TopicName

TOPIC = "persistent://t/n/x"
NAME = TopicName.parse(TOPIC)


@pytest.mark.parametrize(
    ("operation", "given", "status", "reason"),
    [
        (api.PEEK, [], 400, "arguments: must be a JSON object"),
        (api.PEEK, {"topic": TOPIC}, 400, "subscription: missing"),
        (api.PEEK, {"topic": 5, "subscription": "s"}, 400, "topic: must be a text"),
        (api.PEEK, {"topic": TOPIC, "subscription": "s", "nth": 0}, 400, "nth: must be from 1"),
        (api.PEEK, {"topic": TOPIC, "subscription": "s", "n": 1}, 400, "n: unknown argument"),
        (api.PEEK, {"topic": "a/b", "subscription": "s"}, 412, "Invalid short topic name 'a/b'"),
        (api.PEEK, {"topic": TOPIC, "subscription": " "}, 412, "Empty subscription name"),
        (
            api.SKIP_MESSAGES,
            {"topic": TOPIC, "subscription": "s", "count": True},
            400,
            "count: must be a whole",
        ),
        (
            api.SKIP_MESSAGES,
            {"topic": TOPIC, "subscription": "s", "count": -1},
            400,
            "count: must be from 0",
        ),
        (api.DELETE_TOPIC, {"topic": TOPIC, "force": "yes"}, 400, "force: must be true or false"),
        (
            api.CREATE_TOPIC,
            {"topic": TOPIC, "properties": {"a": 1}},
            400,
            "properties: must be a JSON object",
        ),
        (
            api.EXAMINE,
            {"topic": TOPIC, "initial": "middle"},
            400,
            "initial: must be one of earliest, latest",
        ),
        (api.RESET_CURSOR, {"topic": TOPIC, "subscription": "s"}, 400, "timestamp_ms: give either"),
        (
            api.RESET_CURSOR,
            {"topic": TOPIC, "subscription": "s", "position": {"ledger_id": -2, "entry_id": 0}},
            400,
            "ledger_id: must be from -1",
        ),
        (
            api.PREVIEW_CHANGE,
            {"topic": TOPIC, "subscription": "s", "change": "skip"},
            400,
            "count: needed to skip",
        ),
        (
            api.PREVIEW_CHANGE,
            {"topic": TOPIC, "subscription": "s", "change": "x"},
            400,
            "change: must be one of",
        ),
    ],
)
def test_bad_arguments_are_refused_by_field(
    operation: Operation[Any, Any], given: object, status: int, reason: str
) -> None:
    with pytest.raises(AdminError) as refused:
        parse_arguments(operation.arguments, given)
    assert refused.value.status == status
    assert refused.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "args",
    [
        api.CreateTopic(NAME, {"k": "v"}),
        api.ResetCursor(NAME, "s", position=api.MessagePosition(3, 4, excluded=True)),
        api.PreviewChange(NAME, "s", "reset", timestamp_ms=5),
        api.SetTopicPolicy(NAME, "retention", {"retentionSizeInMB": 5}, True, [1]),
        api.LoadedTopics(),
        api.LoadedTopics(NAME.namespace),
        api.NoArguments(),
    ],
)
def test_arguments_survive_the_wire(args: Any) -> None:
    assert parse_arguments(type(args), json.loads(json.dumps(to_json(args)))) == args
