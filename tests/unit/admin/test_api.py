"""Arguments of administrative operations: every refusal names the field."""

import json
from typing import Any

import pytest

from engine.admin.api.arguments import MessagePosition, NoArguments
from engine.admin.api.cursors import (
    PREVIEW_CHANGE,
    RESET_CURSOR,
    SKIP_MESSAGES,
    PreviewChange,
    ResetCursor,
)
from engine.admin.api.messages import EXAMINE, PEEK
from engine.admin.api.policies import SetTopicPolicy
from engine.admin.api.rows import LoadedTopics
from engine.admin.api.topics import CREATE_TOPIC, DELETE_TOPIC, CreateTopic
from engine.base.errors import InvalidRequest, PreconditionFailed, Refusal
from engine.base.names import NamespaceName, TopicName
from engine.functions.worker_operations import TRY_FUNCTION, TriedFunction
from engine.rpc.operation import Operation, parse_arguments, to_json

TOPIC = "persistent://t/n/x"
NAME = TopicName.parse(TOPIC)
ENTRY = {"topic": TOPIC, "ledger": 3, "entry": 4, "stored": "AA=="}
TRIED: dict[str, Any] = {
    **{"component": "function", "namespace": "t/n", "name": "f"},
    **{"details": "", "file_name": "f.py", "code": "", "package": ""},
    **{"entries": [ENTRY], "messages": 1},
}


@pytest.mark.parametrize(
    ("operation", "given", "kind", "reason"),
    [
        (PEEK, [], InvalidRequest, "arguments: must be a JSON object"),
        (PEEK, {"topic": TOPIC}, InvalidRequest, "subscription: missing"),
        (PEEK, {"topic": 5, "subscription": "s"}, InvalidRequest, "topic: must be a text"),
        (
            PEEK,
            {"topic": TOPIC, "subscription": "s", "nth": 0},
            InvalidRequest,
            "nth: must be from 1",
        ),
        (
            PEEK,
            {"topic": TOPIC, "subscription": "s", "n": 1},
            InvalidRequest,
            "n: unknown argument",
        ),
        (
            PEEK,
            {"topic": "a/b", "subscription": "s"},
            PreconditionFailed,
            "Invalid short topic name 'a/b'",
        ),
        (
            PEEK,
            {"topic": TOPIC, "subscription": " "},
            PreconditionFailed,
            "Empty subscription name",
        ),
        (
            SKIP_MESSAGES,
            {"topic": TOPIC, "subscription": "s", "count": True},
            InvalidRequest,
            "count: must be a whole",
        ),
        (
            SKIP_MESSAGES,
            {"topic": TOPIC, "subscription": "s", "count": -1},
            InvalidRequest,
            "count: must be from 0",
        ),
        (
            DELETE_TOPIC,
            {"topic": TOPIC, "force": "yes"},
            InvalidRequest,
            "force: must be true or false",
        ),
        (
            CREATE_TOPIC,
            {"topic": TOPIC, "properties": {"a": 1}},
            InvalidRequest,
            "properties: must be a JSON object",
        ),
        (
            EXAMINE,
            {"topic": TOPIC, "initial": "middle"},
            InvalidRequest,
            "initial: must be one of earliest, latest",
        ),
        (
            RESET_CURSOR,
            {"topic": TOPIC, "subscription": "s"},
            InvalidRequest,
            "timestamp_ms: give either",
        ),
        (
            RESET_CURSOR,
            {"topic": TOPIC, "subscription": "s", "position": {"ledger_id": -2, "entry_id": 0}},
            InvalidRequest,
            "ledger_id: must be from -1",
        ),
        (
            PREVIEW_CHANGE,
            {"topic": TOPIC, "subscription": "s", "change": "skip"},
            InvalidRequest,
            "count: needed to skip",
        ),
        (
            PREVIEW_CHANGE,
            {"topic": TOPIC, "subscription": "s", "change": "x"},
            InvalidRequest,
            "change: must be one of",
        ),
        (TRY_FUNCTION, TRIED | {"entries": ["x"]}, InvalidRequest, "entries[0]: must be a JSON"),
        (TRY_FUNCTION, TRIED | {"entries": {}}, InvalidRequest, "entries: must be a JSON array"),
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
        CreateTopic(NAME, {"k": "v"}),
        ResetCursor(NAME, "s", position=MessagePosition(3, 4, excluded=True)),
        PreviewChange(NAME, "s", "reset", timestamp_ms=5),
        SetTopicPolicy(NAME, "retention", {"retentionSizeInMB": 5}, True, [1]),
        LoadedTopics(),
        TriedFunction("function", NamespaceName.parse("t/n"), "f", "", "f.py", "", "", [ENTRY], 1),
        LoadedTopics(NAME.namespace),
        NoArguments(),
    ],
)
def test_arguments_survive_the_wire(args: Any) -> None:
    assert parse_arguments(type(args), json.loads(json.dumps(to_json(args)))) == args
