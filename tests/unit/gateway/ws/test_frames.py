"""WebSocket frames against sessions recorded with Apache Pulsar 4.0.8."""

import base64
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.producing.outgoing import EntryBuilder
from gateway.ws import encryption, frames

CAPTURE = Path(__file__).parents[3] / "golden" / "captures" / "websocket.jsonl"


def session(name: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in CAPTURE.read_text().splitlines()]
    return [row for row in rows if row.get("session") == name and "frame" in row]


def exchanges(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return pairs of a client's frame and the answer that follows it."""
    rows = session(name)
    return [
        (asked["frame"], json.loads(answer["frame"]))
        for asked, answer in itertools.pairwise(rows)
        if asked["dir"] == "C>S" and answer["dir"] == "S>C"
    ]


def test_every_recorded_producer_frame_is_taken_or_refused_as_pulsar_did() -> None:
    seen = 0
    for text, answer in exchanges("producer"):
        seen += 1
        try:
            message = frames.parse_message(text, 0)
        except frames.ProducerFrameError as error:
            assert answer["result"] == f"send-error:{error.code}", text
            assert answer.get("context") == error.context, text
        else:
            assert answer["result"] == "ok", text
            assert answer.get("context") == message.token, text
    assert seen >= 10


def test_receipts_have_the_recorded_bytes() -> None:
    answer = next(row for row in session("producer") if row["dir"] == "S>C")["frame"]
    message_id = base64.b64decode(json.loads(answer)["messageId"])
    assert frames.sent(message_id, "ctx1") == answer


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("compressionType=BOGUS", 400, "Invalid query params: Invalid compressionType BOGUS"),
        ("sendTimeoutMillis=abc", 400, 'Invalid query params: For input string: "abc"'),
        ("sendTimeoutMillis=-1", 400, "sendTimeoutMillis must be from 0 to 10"),
    ],
)
def test_a_bad_query_parameter_is_refused_by_name(query: str, status: int, text: str) -> None:
    with pytest.raises(frames.HandshakeRefusedError, match=text) as caught:
        parsed = frames.Query.parse(query.encode())
        parsed.choice("compressionType", encryption.COMPRESSIONS, "NONE")
        parsed.number("sendTimeoutMillis", 5, 0, 10)
    assert caught.value.status == status


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda b: b.decode("latin1")))
def test_any_text_is_a_message_or_a_frame_error(text: str) -> None:
    try:
        frames.parse_message(text, 0)
    except frames.ProducerFrameError as error:
        assert error.code in (frames.JSON_ERROR, frames.ENCODING_ERROR)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "payload",
                "key",
                "context",
                "eventTime",
                "deliverAt",
                "deliverAfterMs",
                "properties",
                "replicationClusters",
            ]
        ),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=20)
        | st.lists(st.text(max_size=3), max_size=2)
        | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
        | st.sampled_from(["eA==", "2026-01-02T03:04:05Z", "1960-01-02T03:04:05Z", "\ud800"]),
    )
)
def test_any_object_is_a_message_or_a_frame_error(body: dict[str, Any]) -> None:
    try:
        message = frames.parse_message(json.dumps(body), 0)
    except frames.ProducerFrameError:
        return
    assert isinstance(message.payload, bytes)
    EntryBuilder("p", 0).single(message, 0, 1)  # whatever was taken can be published


@pytest.mark.parametrize(("payload", "content"), [("eA==", b"x"), ("eA", b"x"), ("", b"")])
def test_padding_may_be_left_out(payload: str, content: bytes) -> None:
    assert frames.parse_message(json.dumps({"payload": payload}), 0).payload == content


def test_times_of_a_message() -> None:
    frame = {"payload": "", "eventTime": "1970-01-01T00:00:01Z", "deliverAt": 5}
    message = frames.parse_message(json.dumps(frame), 100)
    assert (message.event_ms, message.deliver_at_ms) == (1000, 5)
    message = frames.parse_message(json.dumps({**frame, "deliverAfterMs": 7}), 100)
    assert message.deliver_at_ms == 107
    with pytest.raises(frames.ProducerFrameError, match="from 1970 on"):
        frames.parse_message(json.dumps({"payload": "", "eventTime": "1969-12-31T00:00:00Z"}), 0)


@given(st.binary(max_size=30), st.none() | st.text(max_size=20))
def test_a_receipt_is_json_whatever_the_context(message_id: bytes, context: str | None) -> None:
    body = json.loads(frames.sent(message_id, context))
    assert base64.b64decode(body.pop("messageId")) == message_id
    assert body.pop("context", None) == context
    assert body == {"result": "ok", "errorCode": 0, "schemaVersion": 0}


@pytest.mark.parametrize(
    "text",
    [
        '{"payload": "eA=="} and more',
        '{"payload": "eA==", "deliverAt": -5}',
        '{"payload": "eA==", "deliverAfterMs": 1.5}',
        '{"payload": "eA==", "deliverAt": "7"}',
        '{"payload": "eA==", "replicationClusters": [1]}',
    ],
)
def test_frames_that_pulsar_accepts_are_accepted(text: str) -> None:
    assert frames.parse_message(text, 0).payload == b"x"


def test_numbers_stand_for_text() -> None:
    frame = '{"payload": "", "context": 1.5, "key": 3, "properties": {"a": 1, "b": true}}'
    message = frames.parse_message(frame, 0)
    assert (message.token, message.key) == ("1.5", "3")
    assert message.properties == {"a": "1", "b": "true"}


def test_null_is_a_message_without_payload() -> None:
    with pytest.raises(frames.ProducerFrameError, match="payload") as caught:
        frames.parse_message("null", 0)
    assert caught.value.code == frames.ENCODING_ERROR
