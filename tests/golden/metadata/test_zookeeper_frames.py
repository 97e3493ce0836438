"""Frames of kazoo and of Apache's clients with Apache's server: ours read the requests and write the same answers.

``python -m tests.oracle.metadata.record`` records them. A row is a request with its answer, or a watch event.
"""

import json
from pathlib import Path

import pytest

from engine.metadata.server.codec import (
    decode_connect,
    decode_request,
    encode_answer,
    encode_connect,
    encode_event,
)
from engine.metadata.server.jute import INT
from engine.metadata.server.protocol import ErrorCode, Op
from tests.support.zookeeper.client_codec import (
    decode_connect_answer,
    decode_event,
    decode_reply,
    encode_connect_request,
    encode_request,
)

Row = dict[str, str]
ROWS: list[Row] = [
    json.loads(line)
    for line in Path(__file__).with_name("zookeeper_frames.jsonl").read_text().splitlines()
]
EXCHANGES = [row for row in ROWS if row["op"] not in ("CONNECT", "EVENT")]


def framed(text: str) -> bytes:
    frame = bytes.fromhex(text)
    return INT.pack(len(frame)) + frame


def name(row: Row) -> str:
    return f"{row['client']}-{row['op']}"


def test_every_request_was_recorded() -> None:
    assert {row["op"] for row in EXCHANGES} == {op.name for op in Op} - {"CHECK", "ERROR"}
    assert any("Check(" in row["value"] for row in EXCHANGES if row["op"] == "MULTI")


@pytest.mark.parametrize("row", EXCHANGES, ids=name)
def test_a_recorded_request_is_read_and_its_answer_written(row: Row) -> None:
    xid, request = decode_request(bytes.fromhex(row["request"]))
    assert repr(request) == row["value"]
    if row["client"] != "kazoo":  # it writes empty texts as null
        assert encode_request(xid, request) == framed(row["request"])
    reply = decode_reply(bytes.fromhex(row["answer"]), request)
    assert repr(reply) == row["answer_value"]
    assert isinstance(reply.code, ErrorCode)
    assert encode_answer(xid, reply.zxid, reply.code, reply.answer) == framed(row["answer"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["op"] == "CONNECT"], ids=name)
def test_a_recorded_connect_request_is_read_and_its_answer_written(row: Row) -> None:
    request = decode_connect(bytes.fromhex(row["request"]))
    assert repr(request) == row["value"]
    assert encode_connect_request(request) == framed(row["request"])
    answer, with_read_only = decode_connect_answer(bytes.fromhex(row["answer"]))
    assert with_read_only == request.has_read_only
    assert encode_connect(answer, with_read_only) == framed(row["answer"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["op"] == "EVENT"], ids=name)
def test_a_recorded_event_is_written(row: Row) -> None:
    event = decode_event(bytes.fromhex(row["answer"]))
    assert repr(event) == row["answer_value"]
    assert encode_event(event) == framed(row["answer"])
