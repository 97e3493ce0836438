"""Clients' frames as values, and what ends a socket how: recorded from Apache's service, frame by frame."""

import pytest

from engine.base.ids import Position
from engine.client.message_ids import MessageId
from gateway.ws.replies import (
    Acknowledgement,
    EndOfTopicQuestion,
    Permit,
    ReplyError,
    Unsubscription,
    message_id_of,
    parse_reply,
    simple_answer,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"messageId":"CAUQBzAA"}', Acknowledgement("CAUQBzAA", False)),
        ('{"type":5,"messageId":"a"}', Acknowledgement("a", False)),
        ('{"messageId":5} and more', Acknowledgement("5", False)),
        ("{}", Acknowledgement(None, False)),
        ('{"type":"negativeAcknowledge","messageId":"a"}', Acknowledgement("a", True)),
        ('{"type":"permit","permitMessages":2}', Permit(2)),
        ('{"type":"permit","permitMessages":"2"}', Permit(2)),
        ('{"type":"permit","permitMessages":1.5}', Permit(1)),
        ('{"type":"isEndOfTopic"}', EndOfTopicQuestion()),
        ('{"type":"unsubscribe"}', Unsubscription()),
    ],
)
def test_valid_replies_are_parsed(text: str, value: object) -> None:
    assert parse_reply(text) == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("not json", 1006),
        ("", 1006),
        ("[]", 1006),
        ("5", 1006),
        ('"x"', 1006),
        ("null", 1011),
        ("[" * 100_000, 1006),
        ('{"messageId":["a"]}', 1006),
        ('{"type":{}}', 1006),
        ('{"type":"permit"}', 1006),
        ('{"type":"permit","permitMessages":true}', 1006),
        ('{"type":"permit","permitMessages":"x"}', 1006),
        ('{"type":"permit","permitMessages":1180591620717411303424}', 1006),
        ('{"type":"permit","permitMessages":1e400}', 1006),
    ],
)
def test_invalid_replies_end_the_socket(text: str, code: int) -> None:
    with pytest.raises(ReplyError) as caught:
        parse_reply(text)
    assert caught.value.code == code


@pytest.mark.parametrize(("text", "code"), [("***", 1011), ("5", 1011), ("eHh4", 1006), ("", 1006)])
def test_invalid_message_ids_are_refused(text: str, code: int) -> None:
    with pytest.raises(ReplyError) as caught:
        message_id_of(text)
    assert caught.value.code == code
    with pytest.raises(ReplyError):
        Acknowledgement(None, False).text()


def test_padding_may_be_left_out() -> None:
    assert message_id_of("CAUQBw") == message_id_of("CAUQBw==") == MessageId(Position(5, 7))


@pytest.mark.parametrize("count", [0, -1, 1_000_001])
def test_permits_have_a_range(count: int) -> None:
    with pytest.raises(ReplyError, match="expected 1 to 1000000") as caught:
        Permit(count).checked()
    assert caught.value.code == 1007


def test_only_plain_acknowledgements_are_taken_the_short_way() -> None:
    assert simple_answer('{"messageId":"abc"}') == simple_answer('{"messageId": "abc"}') == "abc"
    for text in ('{"messageId":"a","type":"x"}', '{"messageId":"a\\u0041"}', '{"a":1}', "", '"}'):
        assert simple_answer(text) == ""
