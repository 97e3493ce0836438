"""Chunks make whole messages, in bounded memory and time."""

import pytest

from engine.base.ids import Position
from engine.client.consuming import chunked
from engine.client.consuming.chunked import Chunks
from engine.wire import pulsar_pb2 as pb


class Joiner:
    """Chunks of named messages, each at its own entry."""

    def __init__(self) -> None:
        self.chunks = Chunks()
        self.now_s = 0.0
        self._entry = 0

    def __call__(self, uuid: str, index: int, count: int, data: bytes = b"x") -> bytes | None:
        metadata = pb.MessageMetadata(uuid=uuid, chunk_id=index, num_chunks_from_msg=count)
        self._entry += 1
        found = self.chunks.add(metadata, Position(1, self._entry), data, self.now_s)
        return None if found is None else found.payload


def test_messages_whose_chunks_mix_are_whole() -> None:
    joiner = Joiner()
    assert joiner("a", 0, 2, b"A1") is None
    assert joiner("b", 0, 3, b"B1") is None
    assert joiner("a", 1, 2, b"A2") == b"A1A2"
    assert joiner("b", 1, 3, b"B2") is None
    assert joiner("b", 2, 3, b"B3") == b"B1B2B3"
    assert joiner.chunks.dropped == 0


def test_a_missing_chunk_gives_the_message_up_until_it_comes_anew() -> None:
    joiner = Joiner()
    joiner("a", 0, 3)
    assert joiner("a", 2, 3) is None
    assert joiner("a", 1, 3) is None
    assert joiner.chunks.dropped == 1
    for index in range(2):
        assert joiner("a", index, 3, b"%d" % index) is None
    assert joiner("a", 0, 3, b"0") is None, "it comes again from its start"
    assert [joiner("a", index, 3, b"%d" % index) for index in (1, 2)] == [None, b"012"]


def test_messages_begun_are_bounded_in_number_bytes_and_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunked, "BEGUN_MAX", 3)
    monkeypatch.setattr(chunked, "BYTES_MAX", 100)
    joiner = Joiner()
    for uuid in "abcd":
        joiner(uuid, 0, 2)
    assert [joiner(uuid, 1, 2) for uuid in "abcd"] == [None, b"xx", b"xx", b"xx"]
    joiner("large", 0, 3, b"y" * 90)
    assert joiner("large", 1, 3, b"y" * 20) is None
    assert joiner("large", 2, 3, b"y") is None
    joiner("e", 0, 2, b"z" * 60)
    joiner("f", 0, 2, b"z" * 60)
    assert joiner("e", 1, 2) is None
    assert joiner("f", 1, 2) is not None
    joiner("old", 0, 2)
    joiner.now_s = 61.0
    joiner("new", 0, 2)
    assert joiner("old", 1, 2) is None
    assert joiner("new", 1, 2) is not None
    joiner("g", 0, 2)
    joiner.chunks.clear()
    assert joiner("g", 1, 2) is None
