"""Chunks are joined to messages in bounded memory, and each chunk is acknowledged or redelivered."""

import pytest

from engine.base.ids import Position
from engine.client.consuming import chunked
from engine.client.consuming.chunked import ChunkBytes, Chunks
from engine.wire import pulsar_pb2 as pb


class Joiner:
    """Chunks of named messages, each at its own entry unless one is given."""

    def __init__(self, kept: ChunkBytes | None = None) -> None:
        self.kept = kept or ChunkBytes()
        self.useless: list[int] = []
        self.again: list[int] = []
        self.chunks = Chunks(
            lambda position: self.useless.append(position.entry_id),
            lambda position: self.again.append(position.entry_id),
            self.kept,
        )
        self.now_s = 0.0
        self.joined: list[int] = []
        self._entry = 0

    def __call__(
        self, uuid: str, index: int, count: int, data: bytes = b"x", *, at: int = 0, total: int = 0
    ) -> bytes | None:
        metadata = pb.MessageMetadata(
            uuid=uuid, chunk_id=index, num_chunks_from_msg=count, total_chunk_msg_size=total
        )
        self._entry += 1
        message = self.chunks.add(metadata, Position(1, at or self._entry), data, self.now_s)
        if message is None:
            return None
        self.joined = [position.entry_id for position in message.positions]
        return message.payload


def test_messages_whose_chunks_mix_are_whole() -> None:
    joiner = Joiner()
    assert joiner("a", 0, 2, b"A1") is None
    assert joiner("b", 0, 3, b"B1") is None
    assert joiner("a", 1, 2, b"A2") == b"A1A2"
    assert joiner("b", 1, 3, b"B2") is None
    assert joiner("b", 2, 3, b"B3") == b"B1B2B3"
    assert joiner.joined == [2, 4, 5]
    assert (joiner.useless, joiner.again, len(joiner.chunks)) == ([], [], 0)


def test_redelivered_chunks_may_arrive_in_any_order() -> None:
    joiner = Joiner()
    assert joiner("a", 1, 3, b"2", at=6) is None
    assert joiner("a", 2, 3, b"3", at=7) is None
    assert joiner("a", 2, 3, b"3", at=7) is None, "the same entry again"
    assert joiner("a", 0, 3, b"1", at=5) == b"123"
    assert (joiner.joined, joiner.useless) == ([5, 6, 7], [])


def test_a_chunk_that_was_sent_twice_is_of_no_use_and_harms_no_message() -> None:
    joiner = Joiner()
    joiner("a", 0, 3, b"1")
    joiner("a", 1, 3, b"2")
    joiner("a", 1, 3, b"2")
    assert joiner("a", 2, 3, b"3") == b"123"
    assert (joiner.joined, joiner.useless) == ([1, 2, 4], [3])


def test_a_message_that_is_sent_again_replaces_its_earlier_chunks() -> None:
    joiner = Joiner()
    joiner("a", 0, 3, b"old")
    joiner("a", 1, 3, b"old")
    joiner("a", 0, 2, b"1")
    assert joiner.useless == [1, 2]
    assert joiner("a", 1, 3, b"old", at=2) is None, "delivered again, late"
    assert joiner("a", 1, 2, b"2", at=4) == b"12"
    assert (joiner.joined, joiner.useless) == ([3, 4], [1, 2, 2])


@pytest.mark.parametrize(("index", "count"), [(-1, 2), (2, 2), (7, 2)])
def test_a_chunk_that_is_none_of_its_message_is_of_no_use(index: int, count: int) -> None:
    joiner = Joiner()
    assert joiner("a", index, count) is None
    assert (joiner.useless, len(joiner.chunks)) == ([1], 0)


def test_messages_begun_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "INCOMPLETE_MAX", 3)
    monkeypatch.setattr(chunked, "BYTES_MAX", 100)
    joiner = Joiner()
    for uuid in "abcd":
        joiner(uuid, 0, 2)
    assert joiner.again == [1], "what began first is to come again"
    assert [joiner(uuid, 1, 2) for uuid in "bcd"] == [b"xx", b"xx", b"xx"]
    joiner("e", 0, 2, b"z" * 60)
    joiner("f", 0, 2, b"z" * 60)
    assert joiner.again == [1, 8]
    assert joiner("f", 1, 2) is not None
    assert joiner.kept.bytes == 0
    assert joiner.useless == []


def test_topics_of_a_consumer_share_the_bound_on_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "BYTES_MAX", 100)
    first = Joiner()
    second = Joiner(first.kept)
    first("a", 0, 2, b"x" * 60)
    second("b", 0, 2, b"x" * 60)
    assert (first.again, second.again) == ([], [1]), "it comes again when there may be room"
    assert first("a", 1, 2) is not None
    second("b", 0, 2, b"x" * 60)
    assert second("b", 1, 2) is not None
    first("c", 0, 2)
    first.chunks.clear()
    assert first.kept.bytes == 0


def test_a_message_above_the_bound_is_not_begun_whatever_size_it_declares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunked, "BYTES_MAX", 100)
    joiner = Joiner()
    joiner("honest", 0, 3, b"y" * 40, total=120)
    assert len(joiner.chunks) == 0
    joiner("liar", 0, 3, b"y" * 90, total=50)
    joiner("liar", 1, 3, b"y" * 90, total=50)
    assert (len(joiner.chunks), joiner.kept.bytes) == (0, 0)
    assert (joiner.useless, joiner.again) == ([], []), "it stays where it is"


def test_messages_that_went_no_further_are_given_up() -> None:
    joiner = Joiner()
    joiner("old", 0, 3)
    joiner("old", 2, 3)
    joiner.now_s = 5.0
    joiner("moves", 0, 3)
    joiner.now_s = 10.0
    joiner("moves", 1, 3)
    abandoned = joiner.chunks.give_up(5.0)
    assert [[position.entry_id for position in positions] for positions in abandoned] == [[1, 2]]
    assert joiner("moves", 2, 3) == b"xxx"
    joiner("g", 0, 2)
    joiner.chunks.clear()
    assert joiner.chunks.give_up(100.0) == []
