"""Entries decoded to columns: they agree with ``unpack_entry`` and cover entries that it refuses."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import BatchFormatError, Message, pack_entry, unpack_entry
from engine.wire.compression import LZ4, NONE, SNAPPY, ZLIB, ZSTD, compress
from spark_jobs.pulsar_source import columns
from spark_jobs.pulsar_source.batch import rows
from spark_jobs.pulsar_source.columns import MESSAGES, EntryColumns, EntryKind, Opened
from spark_jobs.pulsar_source.options import COLUMNS
from spark_jobs.pulsar_source.partitions import LedgerRange

RANGE = LedgerRange(7, 100, 199, 2)
WANTED = [("key", "value_bytes"), tuple(MESSAGES.names)]
CODECS = [NONE, LZ4, ZLIB, ZSTD, SNAPPY]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
MESSAGE = st.builds(
    Message,
    value=st.none() | st.binary(max_size=40),
    key=st.none() | TEXTS,
    properties=st.dictionaries(TEXTS, TEXTS, max_size=2),
    event_ms=st.integers(0, 2**41),
    sequence_id=st.integers(0, 2**40),
    ordering_key=st.none() | st.binary(max_size=3),
)


@pytest.fixture(scope="module", params=[16, 1], autouse=True)
def alike_min(request: pytest.FixtureRequest) -> Iterator[None]:
    """Open messages one by one, then together wherever their layout allows it: the columns must be the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "ALIKE_MIN", request.param)
        patch.setattr(columns, "SINGLE", min(request.param, columns.SINGLE))
        yield


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    batched = draw(st.booleans())
    count = draw(st.integers(1, 4)) if batched else 1
    entry = pack_entry(
        draw(st.lists(MESSAGE, min_size=count, max_size=count)),
        producer_name=draw(TEXTS),
        publish_ms=draw(st.integers(0, 2**41)),
        batched=batched,
        compression=draw(st.sampled_from(CODECS)),
        checksum=draw(st.booleans()),
        extra={"replicated_from": draw(st.sampled_from(["", "east"]))},
    )
    if not draw(st.booleans()):
        return entry
    broker = pb.BrokerEntryMetadata(broker_timestamp=1, index=2).SerializeToString()
    return b"\x0e\x02" + len(broker).to_bytes(4, "big") + broker + entry


def run_of(parts: Sequence[bytes], first: int = 100) -> Slice:
    spans, at = [], 3
    for part in parts:
        spans += [at, at + len(part)]
        at += len(part)
    return Slice(b"abc" + b"".join(parts) + b"abc", spans, at - 3, ledger_id=7, first=first)


def opened(parts: Sequence[bytes], wanted: Sequence[str] = MESSAGES.names) -> Opened:
    filling = EntryColumns(wanted)
    assert list(filling.add(run_of(parts))) == []
    return filling.take()


@given(st.lists(entries(), max_size=6))
def test_columns_agree_with_unpack_entry(parts: list[bytes]) -> None:
    result = opened(parts)
    assert result.problem == ""
    unpacked = [unpack_entry(part) for part in parts]
    assert result.entries.to_pylist() == [
        {
            "entry_id": 100 + i,
            "kind": EntryKind.MESSAGES,
            "rows": len(entry.messages),
            "batch_size": len(entry.messages),
            "publish_ms": entry.publish_ms,
            "producer_name": entry.producer_name,
            "compression": entry.compression,
            "entry_bytes": len(part),
            "payload_bytes": entry.payload_bytes,
            "packed_bytes": entry.packed_bytes,
            "values_bytes": sum(len(message.value or b"") for message in entry.messages),
            "chunk_id": None,
            "broker_ms": entry.broker_metadata and entry.broker_metadata.broker_timestamp,
            "replicated_from": entry.metadata.replicated_from,
        }
        for i, (part, entry) in enumerate(zip(parts, unpacked, strict=True))
    ]
    assert result.messages.to_pylist() == [
        {
            "key": message.key,
            "value": message.value,
            "value_bytes": len(message.value or b""),
            "batch_index": message.batch_index,
            "properties": list(message.properties.items()),
            "event_ms": message.event_ms or None,
            "sequence_id": message.sequence_id,
            "schema_version": None,
            "key_bytes": None if message.key is None else message.key.encode(),
            "ordering_key": message.ordering_key,
        }
        for entry in unpacked
        for message in entry.messages
    ]


@pytest.mark.parametrize("batched", [False, True])
def test_versions_and_keys_are_what_the_producer_had(batched: bool) -> None:
    messages = [
        Message(b"v", key="aw==", key_is_base64=True),
        Message(b"v", key="k"),
        Message(b"v", key="%", key_is_base64=True),
    ]
    of_version = {"schema_version": (5).to_bytes(8, "big")}
    parts = [
        pack_entry(part, producer_name="p", publish_ms=1, extra=of_version, batched=batched)
        for part in ([messages] if batched else [[message] for message in messages])
    ]
    table = opened(parts, ["schema_version", "key_bytes"]).messages
    assert table["schema_version"].to_pylist() == [5] * 3
    assert table["key_bytes"].to_pylist() == [b"k", b"k", b""]


@given(st.lists(entries(), max_size=4), st.sets(st.sampled_from(MESSAGES.names)))
def test_columns_that_were_not_requested_are_not_built(
    parts: list[bytes], wanted: set[str]
) -> None:
    everything = opened(parts)
    result = opened(parts, list(wanted))
    assert result.entries == everything.entries
    assert set(result.messages.schema.names) == wanted
    for name in wanted:
        assert result.messages[name] == everything.messages[name]


@given(st.lists(entries(), min_size=1, max_size=3), st.data())
def test_an_entry_that_is_cut_off_or_damaged_never_raises_and_hides_no_other(
    parts: list[bytes], data: st.DataObject
) -> None:
    whole = parts[0]
    cut = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytes([*whole[:cut], whole[cut] ^ 0xFF, *whole[cut + 1 :]])
    for broken in (whole[:cut], flipped):
        try:
            known = len(unpack_entry(broken).messages)
        except (BatchFormatError, ValueError):
            known = -1
        result = opened([*parts, broken, *parts])
        kinds = result.entries["kind"].to_pylist()
        if known < 0:
            assert (kinds[len(parts)] == EntryKind.UNREADABLE) == bool(result.problem)
        assert kinds[: len(parts)] == kinds[-len(parts) :] == [EntryKind.MESSAGES] * len(parts)
        assert result.messages.num_rows == sum(result.entries["rows"].to_pylist())
        alone = opened(parts).messages
        assert result.messages.slice(0, alone.num_rows) == alone


def test_the_first_entry_that_cannot_be_read_is_named() -> None:
    good = pack_entry([Message(b"v")], producer_name="p", publish_ms=1)
    result = opened([good, good[:-1], b"", good])
    assert result.problem == "entry 101: its checksum does not match"
    assert result.entries["kind"].to_pylist() == [
        EntryKind.MESSAGES,
        EntryKind.UNREADABLE,
        EntryKind.UNREADABLE,
        EntryKind.MESSAGES,
    ]
    assert result.entries["entry_bytes"].to_pylist() == [len(good), len(good) - 1, 0, len(good)]


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("codec", CODECS)
def test_an_encrypted_entry_is_one_row_of_unknown_size_with_its_message_count(
    codec: int, wanted: tuple[str, ...]
) -> None:
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    batch = [Message(b"value", key="secret") for _ in range(3)]
    entry = pack_entry(
        batch, producer_name="p", publish_ms=5, compression=codec, extra={"encryption_keys": keys}
    )
    result = opened([entry], wanted)
    facts = result.entries.to_pylist()[0]
    assert (facts["kind"], facts["rows"], facts["batch_size"]) == (EntryKind.ENCRYPTED, 1, 3)
    assert result.messages["value_bytes"].to_pylist() == [None]
    if "value" in wanted:
        assert entry.endswith(result.messages["value"].to_pylist()[0])


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("codec", CODECS)
def test_chunks_are_rows_and_the_first_has_the_size_of_the_message(
    codec: int, wanted: tuple[str, ...]
) -> None:
    whole = b"0123456789" * 100
    packed = compress(codec, whole)
    middle = len(packed) // 2
    parts = [
        pack_entry(
            [Message(part, key="k")],
            producer_name="p",
            publish_ms=5,
            extra={
                **{"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": i, "compression": codec},
                **{"total_chunk_msg_size": len(packed), "uncompressed_size": len(whole)},
            },
        )
        for i, part in enumerate((packed[:middle], packed[middle:]))
    ]
    result = opened(parts, wanted)
    assert result.entries["kind"].to_pylist() == [EntryKind.CHUNK] * 2
    assert result.entries["chunk_id"].to_pylist() == [0, 1]
    assert result.entries["payload_bytes"].to_pylist() == [len(whole), 0]
    assert sum(result.entries["packed_bytes"].to_pylist()) == len(packed)
    assert result.messages["value_bytes"].to_pylist() == [len(whole), 0]
    if "value" in wanted:
        assert b"".join(result.messages["value"].to_pylist()) == packed


def test_a_marker_is_an_entry_without_messages() -> None:
    entry = pack_entry([Message(b"")], producer_name="p", publish_ms=5, extra={"marker_type": 10})
    result = opened([entry])
    assert result.entries["kind"].to_pylist() == [EntryKind.MARKER]
    assert result.messages.num_rows == 0


def test_claims_beyond_reason_are_not_believed() -> None:
    late = pack_entry([Message(b"v")], producer_name="p", publish_ms=2**63 + 5)
    huge = {"uncompressed_size": columns.UNCOMPRESSED_BYTES_MAX + 1, "compression": LZ4}
    bomb = pack_entry([Message(b"v")], producer_name="p", publish_ms=1, extra=huge)
    many = pack_entry(
        [Message(b"v")], producer_name="p", publish_ms=1, extra={"num_messages_in_batch": 2**31 - 1}
    )
    result = opened([late, bomb, many])
    assert result.entries["publish_ms"].to_pylist() == [None, None, None]
    assert result.entries["kind"].to_pylist() == [0, EntryKind.UNREADABLE, EntryKind.UNREADABLE]


def test_text_that_is_not_utf_8_is_made_readable() -> None:
    single = pb.SingleMessageMetadata(partition_key="ab", payload_size=1).SerializeToString()
    body = single.replace(b"ab", b"\xff\xfe")
    payload = len(body).to_bytes(4, "big") + body + b"v"
    head = pb.MessageMetadata(
        producer_name="pq", sequence_id=1, publish_time=1, num_messages_in_batch=1
    )
    metadata = head.SerializeToString().replace(b"pq", b"\xffq")
    entry = len(metadata).to_bytes(4, "big") + metadata + payload
    result = opened([entry])
    assert result.entries["producer_name"].to_pylist() == ["\ufffdq"]
    assert result.messages["key"].to_pylist() == ["\ufffd\ufffd"]


def test_columns_are_handed_over_before_they_grow_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "ALIKE_MIN", 16)
    monkeypatch.setattr(columns, "ROWS_MAX", 10)
    monkeypatch.setattr(columns, "VALUE_BYTES_MAX", 100)
    small = pack_entry([Message(b"v")] * 4, producer_name="p", publish_ms=1)
    large = pack_entry([Message(b"v" * 60)], producer_name="p", publish_ms=1)
    filling = EntryColumns(MESSAGES.names)
    given_out = [*filling.add(run_of([small] * 4 + [large] * 3)), filling.take()]
    assert [part.messages.num_rows for part in given_out] == [12, 6, 1]
    assert filling.empty


@given(st.lists(entries(), max_size=4))
def test_rows_repeat_what_is_known_of_the_entry(parts: list[bytes]) -> None:
    batch = rows(opened(parts), RANGE, tuple(COLUMNS))
    assert batch.schema.names == list(COLUMNS)
    expected = [
        (100 + i, entry.publish_ms, len(part), message.key, len(entry.messages), entry.compression)
        for i, part in enumerate(parts)
        for entry in [unpack_entry(part)]
        for message in entry.messages
    ]
    names = ("entry_id", "publish_ms", "entry_bytes", "key", "batch_size", "compression")
    assert list(zip(*(batch[name].to_pylist() for name in names), strict=True)) == expected
    assert set(batch["ledger_id"].to_pylist()) <= {7}
    assert set(batch["partition"].to_pylist()) <= {2}
    times = batch["publish_time"].cast("int64").to_pylist()
    assert times == [publish_ms * 1000 for _, publish_ms, *_ in expected]


def test_rows_have_the_requested_columns_in_that_order() -> None:
    entry = pack_entry([Message(b"v", key="k")], producer_name="p", publish_ms=1)
    batch = rows(opened([entry], ["key"]), RANGE, ("producer_name", "key"))
    assert batch.to_pylist() == [{"producer_name": "p", "key": "k"}]
