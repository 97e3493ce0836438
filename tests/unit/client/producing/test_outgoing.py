"""Entries that any client can decode, for every field of a message."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.producing.outgoing import EntryBuilder, OutgoingMessage
from engine.wire.batches import unpack_entry
from engine.wire.kernels import batch_sizes

words = st.text(max_size=20).filter(lambda text: text.isprintable())
messages = st.builds(
    OutgoingMessage,
    payload=st.binary(max_size=300),
    key=st.none() | words,
    ordering_key=st.none() | st.binary(min_size=1, max_size=5),
    properties=st.dictionaries(words, words, max_size=3),
    event_ms=st.integers(0, 1 << 50),
)
codecs = st.integers(0, 4)
sequences = st.integers(0, 1 << 62)


def facts(message: OutgoingMessage) -> tuple[Any, ...]:
    return (
        message.payload,
        message.key,
        message.ordering_key,
        dict(message.properties or {}),
        message.event_ms,
    )


@given(messages, codecs, sequences)
def test_a_single_message(message: OutgoingMessage, codec: int, sequence: int) -> None:
    opened = unpack_entry(EntryBuilder("pé", codec).single(message, sequence, 1234))
    [stored] = opened.messages
    assert (
        stored.value,
        stored.key,
        stored.ordering_key,
        stored.properties,
        stored.event_ms,
    ) == facts(message)
    assert (opened.producer_name, opened.publish_ms, stored.sequence_id) == ("pé", 1234, sequence)
    assert not opened.batched


@given(st.lists(messages, min_size=2, max_size=5), codecs, sequences)
def test_a_batch(batch: list[OutgoingMessage], codec: int, sequence: int) -> None:
    entry = EntryBuilder("p", codec).batch(batch, sequence, 1234)
    opened = unpack_entry(entry)
    assert [
        (message.value, message.key, message.ordering_key, message.properties, message.event_ms)
        for message in opened.messages
    ] == list(map(facts, batch))
    numbers = [message.sequence_id for message in opened.messages]
    assert numbers == list(range(sequence, sequence + len(batch)))
    assert opened.metadata.highest_sequence_id == numbers[-1]
    assert batch_sizes(entry, [0, len(entry)]) == [len(batch)]


@pytest.mark.parametrize("codec", range(5))
def test_chunks_are_below_the_limit_and_together_the_message(codec: int) -> None:
    payload = bytes(range(256)) * 100
    message = OutgoingMessage(payload, key="k" * 100)
    entries = EntryBuilder("p", codec).chunks(message, 7, 1234, 2000)
    assert max(map(len, entries)) <= 2000
    metadata = [unpack_entry(entry).metadata for entry in entries] if not codec else []
    assert [chunk.chunk_id for chunk in metadata] == list(range(len(metadata)))
    assert {(chunk.uuid, chunk.sequence_id, chunk.partition_key) for chunk in metadata} <= {
        ("p-7", 7, "k" * 100)
    }
