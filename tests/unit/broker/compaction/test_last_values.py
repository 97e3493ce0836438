"""The last message of each key, which stays unless it is empty, among single messages and batches of every kind."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.broker.compaction.last_values import LastValues
from engine.wire.batches import Message, pack_entry, read_metadata, unpack_entry
from engine.wire.compression import LZ4, NONE, ZLIB
from engine.wire.kernels import BROKER_METADATA_MAGIC

KEYS = st.one_of(st.none(), st.sampled_from("abcd"))
MESSAGES = st.builds(Message, st.sampled_from([b"", b"1", b"22", None]), KEYS)


@dataclass(frozen=True)
class Sent:
    messages: list[Message]
    batched: bool
    compression: int
    stamped: bool = False

    @property
    def entry(self) -> bytes:
        packed = pack_entry(
            self.messages,
            producer_name="p",
            publish_ms=1,
            batched=self.batched,
            compression=self.compression,
        )
        stamp = BROKER_METADATA_MAGIC.to_bytes(2, "big") + b"\0\0\0\2\x08\x05"
        return stamp + packed if self.stamped else packed


ENTRIES = st.lists(
    st.one_of(
        st.builds(
            Sent,
            st.lists(MESSAGES, min_size=1, max_size=5),
            st.just(True),
            st.sampled_from([NONE, LZ4, ZLIB]),
            st.booleans(),
        ),
        st.builds(
            Sent,
            MESSAGES.map(lambda message: [message]),
            st.just(False),
            st.just(NONE),
            st.booleans(),
        ),
    ),
    max_size=8,
)


def compact(entries: list[bytes], *, retain: bool = False) -> tuple[list[bytes | None], LastValues]:
    values = LastValues(retain_null_key=retain)
    for number, entry in enumerate(entries):
        values.take(number, entry)
    selection = values.selection()
    return [selection.kept(number, entry) for number, entry in enumerate(entries)], values


def seen(entries: list[bytes | None]) -> list[tuple[int, int, str | None, bytes | None]]:
    """Return entry, index, key and value of each message that was not compacted out."""
    return [
        (number, message.batch_index, message.key, message.value or None)
        for number, entry in enumerate(entries)
        if entry is not None
        for message in unpack_entry(entry).messages
        if not message.compacted_out
    ]


@given(ENTRIES, st.booleans())
def test_the_last_value_of_each_key_stays_where_it_was(sent: list[Sent], retain: bool) -> None:
    entries = [item.entry for item in sent]
    kept, values = compact(entries, retain=retain)
    everything = seen(entries)
    last = {key: (number, index) for number, index, key, _ in everything if key is not None}
    expected = [
        item
        for item in everything
        if (retain if item[2] is None else item[3] is not None and last[item[2]] == item[:2])
    ]
    assert seen(kept) == expected
    assert values.keys == len({item[2] for item in expected} - {None})
    again, _ = compact([item for item in kept if item is not None], retain=retain)
    assert again == [item for item in kept if item is not None]


@given(ENTRIES)
def test_a_compacted_batch_keeps_its_positions_size_and_metadata(sent: list[Sent]) -> None:
    entries = [source.entry for source in sent]
    for source, entry, left in zip(sent, entries, compact(entries)[0], strict=True):
        if left is None:
            continue
        before, after = read_metadata(entry), read_metadata(left)
        assert before is not None
        assert after is not None
        assert left[:2] == entry[:2]  # the broker's metadata in front of the entry stays
        if source.batched:
            assert len(unpack_entry(left).messages) == len(source.messages)
            before.uncompressed_size = after.uncompressed_size
            assert after == before
        else:
            assert left == entry


def test_removed_messages_are_counted_as_apache_counts_them() -> None:
    """Count a marker, an older value, a message without a key, and an empty one with or without a value before it."""
    sent = [("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", b""), ("c", b""), (None, b"x")]
    entries = [Sent([Message(value, key)], False, NONE).entry for key, value in sent]
    entries.append(packed(b"m", marker_type=10))
    assert compact(entries)[1].removed == 5
    assert compact(entries, retain=True)[1].removed == 4


def packed(value: bytes, **fields: Any) -> bytes:
    return pack_entry([Message(value)], producer_name="p", publish_ms=1, extra=fields)


def test_markers_are_removed_and_unreadable_entries_stay() -> None:
    batch = Sent([Message(b"1", "a"), Message(b"2", "b")], True, LZ4).entry
    damaged = batch[:-1] + bytes([batch[-1] ^ 0xFF])
    short = packed(b"xx", num_messages_in_batch=9)
    entries = [packed(b"m", marker_type=10), b"", b"\0\0\0\x7f", short, batch, damaged[:-2]]
    kept, values = compact(entries)
    assert kept[0] is None
    assert kept[1:] == entries[1:]
    assert values.keys == 2
    assert values.removed == 1


def test_an_encrypted_batch_of_several_messages_stays_as_other_keys_may_be_in_it() -> None:
    keys = [{"key": "k", "value": b"v"}]
    secret = {"encryption_keys": keys, "num_messages_in_batch": 2}
    entries = [packed(b"1", partition_key="a"), packed(b"2", partition_key="a", **secret)]
    entries += [packed(b"3", **secret), packed(b"4", partition_key="a")]
    for retain in (False, True):
        kept, values = compact(entries, retain=retain)
        assert kept == [None, *entries[1:]]
        assert (values.removed, values.keys) == (1, 1)


def test_an_encrypted_batch_of_one_message_is_compacted_by_its_key() -> None:
    keys = [{"key": "k", "value": b"v"}]
    secret = {"encryption_keys": keys, "num_messages_in_batch": 1, "partition_key": "a"}
    entries = [packed(b"1", **secret), packed(b"2", **secret)]
    assert compact(entries)[0] == [None, entries[1]]


def chunk(uuid: str, index: int, count: int, key: str | None = None) -> bytes:
    fields = {"uuid": uuid, "chunk_id": index, "num_chunks_from_msg": count}
    return packed(b"%d" % index, **fields, **({} if key is None else {"partition_key": key}))


def stay(entries: list[bytes], *, retain: bool = False) -> list[int]:
    """Return the numbers of the entries that stay; check that a second compaction leaves them unchanged."""
    kept, _ = compact(entries, retain=retain)
    left = [entry for entry in kept if entry is not None]
    assert compact(left, retain=retain)[0] == left
    return [number for number, entry in enumerate(kept) if entry is not None]


def test_all_chunks_of_the_last_message_of_a_key_stay() -> None:
    chunks = [chunk("m", i, 3, "k") for i in range(3)]
    other = packed(b"x", partition_key="other")
    old = packed(b"old", partition_key="k")
    assert stay([old, chunks[0], other, chunks[1], chunks[2]]) == [1, 2, 3, 4]
    assert compact([old, *chunks])[1].removed == 1


def test_a_later_message_replaces_all_chunks() -> None:
    first = [chunk("m", i, 2, "k") for i in range(2)]
    second = [chunk("n", i, 2, "k") for i in range(2)]
    new = packed(b"new", partition_key="k")
    assert stay([*first, new]) == [2]
    # A chunked message is as late as its last chunk.
    assert stay([first[0], new, first[1]]) == [0, 2]
    assert stay([first[0], second[0], first[1], second[1]]) == [1, 3]
    assert stay([*first, packed(b"", partition_key="k")]) == []


def test_chunks_of_a_message_that_is_not_complete_stay_beside_the_value_before() -> None:
    old = packed(b"old", partition_key="k")
    chunks = [chunk("m", i, 3, "k") for i in range(3)]
    assert stay([old, *chunks[:2]]) == [0, 1, 2]
    kept = [entry for entry in compact([old, *chunks[:2]])[0] if entry is not None]
    assert stay([*kept, chunks[2]]) == [1, 2, 3]  # as the next compaction has them


def test_repeated_chunks_are_assembled_as_clients_do() -> None:
    chunks = [chunk("m", i, 3, "k") for i in range(3)]
    assert stay([chunks[0], chunks[1], chunks[1], chunks[0], chunks[1], chunks[2]]) == [3, 4, 5]
    assert stay([chunks[0], chunks[1], chunks[0], chunks[1], chunks[1], chunks[2]]) == [2, 3, 5]
    old = packed(b"old", partition_key="k")
    assert stay([old, chunks[0], chunks[2]]) == [0]  # a message that lacks a chunk cannot be read


def test_chunks_without_a_key_all_stay_or_are_all_removed() -> None:
    chunks = [chunk("m", i, 2) for i in range(2)]
    assert stay(chunks) == []
    assert compact(chunks)[1].removed == 1
    assert stay(chunks, retain=True) == [0, 1]


def test_a_message_is_empty_by_its_flag_its_size_or_its_payload() -> None:
    valued = packed(b"1", partition_key="a")
    for empty in (
        packed(b"", partition_key="a"),
        packed(b"", partition_key="a", uncompressed_size=0),
        packed(b"x", partition_key="a", null_value=True),
        Sent([Message(b"", "a")], True, NONE).entry,
    ):
        assert compact([valued, empty])[0] == [None, None]
    assert compact([valued, packed(b"x", partition_key="a", uncompressed_size=1)])[0][0] is None
