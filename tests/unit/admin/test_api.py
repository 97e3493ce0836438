"""Arguments of administrative operations: every refusal names the field."""

import json
from typing import Any

import pytest

from engine.admin import api
from engine.admin.operation import Operation, parse_arguments, to_json
from engine.base.errors import InvalidRequest, PreconditionFailed, Refusal
from engine.base.names import TopicName

TOPIC = "persistent://t/n/x"
NAME = TopicName.parse(TOPIC)


@pytest.mark.parametrize(
    ("operation", "given", "kind", "reason"),
    [
        (api.PEEK, [], InvalidRequest, "arguments: must be a JSON object"),
        (api.PEEK, {"topic": TOPIC}, InvalidRequest, "subscription: missing"),
        (api.PEEK, {"topic": 5, "subscription": "s"}, InvalidRequest, "topic: must be a text"),
        (
            api.PEEK,
            {"topic": TOPIC, "subscription": "s", "nth": 0},
            InvalidRequest,
            "nth: must be from 1",
        ),
        (
            api.PEEK,
            {"topic": TOPIC, "subscription": "s", "n": 1},
            InvalidRequest,
            "n: unknown argument",
        ),
        (
            api.PEEK,
            {"topic": "a/b", "subscription": "s"},
            PreconditionFailed,
            "Invalid short topic name 'a/b'",
        ),
        (
            api.PEEK,
            {"topic": TOPIC, "subscription": " "},
            PreconditionFailed,
            "Empty subscription name",
        ),
        (
            api.SKIP_MESSAGES,
            {"topic": TOPIC, "subscription": "s", "count": True},
            InvalidRequest,
            "count: must be a whole",
        ),
        (
            api.SKIP_MESSAGES,
            {"topic": TOPIC, "subscription": "s", "count": -1},
            InvalidRequest,
            "count: must be from 0",
        ),
        (
            api.DELETE_TOPIC,
            {"topic": TOPIC, "force": "yes"},
            InvalidRequest,
            "force: must be true or false",
        ),
        (
            api.CREATE_TOPIC,
            {"topic": TOPIC, "properties": {"a": 1}},
            InvalidRequest,
            "properties: must be a JSON object",
        ),
        (
            api.EXAMINE,
            {"topic": TOPIC, "initial": "middle"},
            InvalidRequest,
            "initial: must be one of earliest, latest",
        ),
        (
            api.RESET_CURSOR,
            {"topic": TOPIC, "subscription": "s"},
            InvalidRequest,
            "timestamp_ms: give either",
        ),
        (
            api.RESET_CURSOR,
            {"topic": TOPIC, "subscription": "s", "position": {"ledger_id": -2, "entry_id": 0}},
            InvalidRequest,
            "ledger_id: must be from -1",
        ),
        (
            api.PREVIEW_CHANGE,
            {"topic": TOPIC, "subscription": "s", "change": "skip"},
            InvalidRequest,
            "count: needed to skip",
        ),
        (
            api.PREVIEW_CHANGE,
            {"topic": TOPIC, "subscription": "s", "change": "x"},
            InvalidRequest,
            "change: must be one of",
        ),
    ],
)
def test_bad_arguments_are_refused_by_field(
    operation: Operation[Any, Any], given: object, kind: type[Refusal], reason: str
) -> None:
    with pytest.raises(Refusal) as refused:
        parse_arguments(operation.arguments, given)
    assert type(refused.value) is kind
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
