"""Times, durations and places of options."""

import pytest

from engine.base.ids import Position
from engine.client.message_ids import MessageId
from magnetar.command.exits import CommandFailed
from magnetar.command.messages.starts import EARLIEST, LATEST, Start, of_partition, parse_start
from magnetar.command.messages.values import duration_s, time_ms

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5), ("0.5s", 0.5), ("250ms", 0.25), ("2m", 120), ("1H", 3600), ("1w", 604_800)],
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "-1s", "1y", "1 s", "inf", "nan", "1e9", "٣s", "9" * 20])
def test_wrong_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        duration_s(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("now", NOW),
        ("0", 0),
        ("1234567890123", 1_234_567_890_123),
        ("2027-01-31T12:00:00Z", 1_801_396_800_000),
        ("2027-01-31T12:00:00", 1_801_396_800_000),
        ("2027-01-31T13:00:00+01:00", 1_801_396_800_000),
        ("-10m", NOW - 600_000),
    ],
)
def test_times_have_several_forms(text: str, ms: int) -> None:
    assert time_ms(text, NOW) == ms


@pytest.mark.parametrize(
    "text", ["", "yesterday", "1900-01-01", "-", "-1y", "9" * 16, "99999-01-01"]
)
def test_wrong_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        time_ms(text, NOW)


def test_places_are_names_ids_and_times() -> None:
    assert parse_start("earliest", NOW) is EARLIEST
    assert parse_start("latest", NOW) is LATEST
    assert parse_start("12:5", NOW).message_id == MessageId(Position(12, 5))
    assert parse_start("12:5:-1", NOW).message_id == MessageId(Position(12, 5))
    assert parse_start("12:5:2:7", NOW).message_id == MessageId(Position(12, 5), 2, 7)
    assert parse_start("9223372036854775807:0", NOW).message_id.position.ledger_id == 2**63 - 1
    assert parse_start("-1s", NOW) == Start(EARLIEST.message_id, NOW - 1000)


@pytest.mark.parametrize("text", ["12:", "12:-1", "9223372036854775808:0", "first", "1:2:3:4:5"])
def test_wrong_places_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="earliest, latest, a message id"):
        parse_start(text, NOW)


def test_an_id_is_in_one_partition() -> None:
    topics = ["t-partition-0", "t-partition-1"]
    assert of_partition(topics, EARLIEST) == topics
    assert of_partition(topics, parse_start("1:2:1", NOW)) == topics[1:]
    assert of_partition(["t"], parse_start("1:2", NOW)) == ["t"]
    for text in ("1:2", "1:2:2"):
        with pytest.raises(CommandFailed, match="has 2 partitions"):
            of_partition(topics, parse_start(text, NOW))
