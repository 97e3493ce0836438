"""Text that is not UTF-8, which the protobuf runtime lets through, and times as Java prints them."""

import pytest

from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.texts import invalid_text_field, iso_time, readable


def parsed(field: str, text: bytes, **body: object) -> pb.BaseCommand:
    """Return a command whose marked text was exchanged for other bytes of the same length."""
    mark = "#" * len(text)
    marked = {name: _marked(value, mark) for name, value in body.items()}
    raw = commands.command_bytes(field, marked)
    assert raw.count(mark.encode()) == 1
    raw = raw.replace(mark.encode(), text)
    return commands.parse(raw, 0, len(raw))


def _marked(value: object, mark: str) -> object:
    if isinstance(value, dict):
        return {name: _marked(item, mark) for name, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, mark) for item in value]
    return mark if value is ... else value


CASES = [
    ("producer", "topic", {"topic": ..., "producer_id": 1, "request_id": 1}),
    (
        "producer",
        "value",
        {
            "topic": "t",
            "producer_id": 1,
            "request_id": 1,
            "metadata": [{"key": "a", "value": "b"}, {"key": "c", "value": ...}],
        },
    ),
    ("connect", "client_version", {"client_version": ...}),
    ("lookupTopic", "topic", {"topic": ..., "request_id": 1}),
    (
        "subscribe",
        "subscription",
        {"topic": "t", "subscription": ..., "subType": 0, "consumer_id": 1, "request_id": 1},
    ),
]


@pytest.mark.parametrize(("field", "name", "body"), CASES)
def test_a_command_with_wrong_text_is_refused_by_the_field_s_name(
    field: str, name: str, body: dict[str, object]
) -> None:
    with pytest.raises(commands.MalformedCommandError, match=f"{name} is not UTF-8"):
        parsed(field, b"\xff\xfe", **body)


@pytest.mark.parametrize(("field", "name", "body"), CASES)
def test_text_beyond_ascii_is_accepted(field: str, name: str, body: dict[str, object]) -> None:
    assert invalid_text_field(parsed(field, "ü".encode(), **body), field) is None


def test_stored_text_is_made_readable() -> None:
    assert readable("ü") == "ü"
    assert readable(b"a\xffb") == "a\ufffdb"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_256_802_770, "2026-11-21T10:26:42.77Z"),
        (1 << 62, "9999-12-31T23:59:59.999Z"),
        ((1 << 64) - 1, "9999-12-31T23:59:59.999Z"),
        (-(1 << 63), "1970-01-01T00:00:00Z"),
    ],
)
def test_times_have_no_trailing_zeros_and_are_clamped_to_printable_years(
    ms: int, text: str
) -> None:
    assert iso_time(ms) == text
