"""Arguments of administrative operations: every refusal names the field."""

import inspect
from typing import Any

import pytest

from engine.admin import api
from engine.base.errors import AdminError

TOPIC = "persistent://t/n/x"


@pytest.mark.parametrize(
    ("operation", "given", "status", "reason"),
    [
        ("peek", [], 400, "arguments: must be a JSON object"),
        ("peek", {"topic": TOPIC}, 400, "subscription: missing"),
        ("peek", {"topic": 5, "subscription": "s"}, 400, "topic: must be a text"),
        ("peek", {"topic": TOPIC, "subscription": "s", "nth": 0}, 400, "nth: must be from 1"),
        ("peek", {"topic": TOPIC, "subscription": "s", "n": 1}, 400, "n: unknown argument"),
        ("peek", {"topic": "a/b", "subscription": "s"}, 412, "Invalid short topic name 'a/b'"),
        ("peek", {"topic": TOPIC, "subscription": " "}, 412, "Empty subscription name"),
        (
            "skip_messages",
            {"topic": TOPIC, "subscription": "s", "count": True},
            400,
            "count: must be a whole",
        ),
        (
            "skip_messages",
            {"topic": TOPIC, "subscription": "s", "count": -1},
            400,
            "count: must be from 0",
        ),
        ("delete_topic", {"topic": TOPIC, "force": "yes"}, 400, "force: must be true or false"),
        (
            "create_topic",
            {"topic": TOPIC, "properties": {"a": 1}},
            400,
            "properties: must be a JSON object",
        ),
        (
            "examine",
            {"topic": TOPIC, "initial": "middle"},
            400,
            "initial: must be one of earliest, latest",
        ),
        ("reset_cursor", {"topic": TOPIC, "subscription": "s"}, 400, "timestamp_ms: give either"),
        (
            "reset_cursor",
            {"topic": TOPIC, "subscription": "s", "position": {"ledger_id": -2, "entry_id": 0}},
            400,
            "ledger_id: must be from -1",
        ),
        (
            "preview_change",
            {"topic": TOPIC, "subscription": "s", "change": "skip"},
            400,
            "count: needed to skip",
        ),
        (
            "preview_change",
            {"topic": TOPIC, "subscription": "s", "change": "x"},
            400,
            "change: must be one of",
        ),
    ],
)
def test_bad_arguments_are_refused_by_field(
    operation: str, given: object, status: int, reason: str
) -> None:
    with pytest.raises(AdminError) as refused:
        api.parse_arguments(api.OPERATIONS[operation], given)
    assert refused.value.status == status
    assert refused.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "args",
    [
        api.CreateTopic(TOPIC, {"k": "v"}),
        api.ResetCursor(TOPIC, "s", position=api.MessagePosition(3, 4, excluded=True)),
        api.PreviewChange(TOPIC, "s", "reset", timestamp_ms=5),
        api.BrokerTopicsStats(),
        api.NoArguments(),
    ],
)
def test_arguments_survive_the_wire(args: Any) -> None:
    assert api.parse_arguments(type(args), api.to_json(args)) == args


def test_every_operation_takes_the_arguments_it_is_listed_with() -> None:
    methods = {
        name: method
        for name, method in vars(api.Operations).items()
        if inspect.iscoroutinefunction(method)
    }
    assert sorted(methods) == sorted(api.OPERATIONS)
    for name, method in methods.items():
        assert inspect.get_annotations(method)["args"] is api.OPERATIONS[name]
    assert api.OPERATIONS.keys() >= api.READS
