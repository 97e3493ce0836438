"""The kernels against protobuf and the byte layouts, on any run of entries."""

import hashlib
from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.crc32c import crc32c
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.wire import bookie_commands, client_commands, commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.commands import command_bytes
from engine.wire.kernels import (
    BAD_CHECKSUM,
    BATCH_MESSAGES_MAX,
    NEED,
    OTHER,
    TOO_LARGE,
    SendRun,
    bare,
    batch_sizes,
    build_add_replies,
    build_adds,
    build_messages,
    build_receipts,
    entry_stamp,
    head_sequences,
    messages_in,
    metadata_span,
    stamped,
    tagged,
    take_acks,
    take_add_replies,
    take_adds,
    take_read_replies,
    take_sends,
)

FRAME_MAX = 5 * 1024 * 1024
KEY = hashlib.sha1(b"ledger").digest()
NUMBERS = st.one_of(
    st.integers(0, 300), st.sampled_from([127, 128, 16383, 16384, 2**21, 2**35, 2**63 - 1])
)


def entry(value: bytes, checksum: bool = True, count: int | None = None) -> bytes:
    extra = {} if count is None else {"num_messages_in_batch": count}
    return pack_entry(
        [Message(value)], producer_name="p", publish_ms=1, checksum=checksum, extra=extra
    )


def sends(producer_id: int, values: list[bytes], sequence: int = 0) -> bytes:
    return b"".join(
        client_commands.send(producer_id, sequence + i, entry(value))
        for i, value in enumerate(values)
    )


SENDS = st.lists(
    st.tuples(
        NUMBERS,  # sequence id
        st.binary(max_size=40),
        st.booleans(),  # checksum
        st.one_of(st.none(), st.integers(1, 300)),  # message count
        st.one_of(st.none(), st.integers(0, 200)),  # highest sequence id above the sequence id
    ),
    min_size=1,
    max_size=8,
)


@given(NUMBERS, SENDS)
def test_a_run_of_sends_holds_what_protobuf_reads(
    producer_id: int, wanted: list[tuple[int, bytes, bool, int | None, int | None]]
) -> None:
    entries = [entry(value, checksum, count) for _, value, checksum, count, _ in wanted]
    buf = b"".join(
        client_commands.send(
            producer_id,
            sequence,
            payload,
            num_messages=count,
            highest_sequence_id=None if above is None else min(sequence + above, 2**63 - 1),
        )
        for payload, (sequence, _, _, count, above) in zip(entries, wanted, strict=True)
    )
    pos, why, run = take_sends(buf, 0, len(buf), FRAME_MAX)
    assert (pos, why) == (len(buf), NEED)
    assert run is not None
    assert [run.entry(i) for i in range(run.count)] == entries
    assert run.size == sum(map(len, entries))
    assert run.messages == sum(count or 1 for _, _, _, count, _ in wanted)
    highest = [min(s + (above or 0), 2**63 - 1) for s, _, _, _, above in wanted]
    assert head_sequences(run.heads) == [
        (sequence, high) for (sequence, *_), high in zip(wanted, highest, strict=True)
    ]
    assert run.first_sequence == wanted[0][0]
    assert run.last_sequence == highest[-1]


@given(NUMBERS, SENDS, st.data())
def test_sends_cut_at_any_byte_yield_whole_frames_only(
    producer_id: int,
    wanted: list[tuple[int, bytes, bool, int | None, int | None]],
    data: st.DataObject,
) -> None:
    made = [
        client_commands.send(producer_id, sequence, entry(value, checksum), num_messages=count)
        for sequence, value, checksum, count, _ in wanted
    ]
    buf = b"".join(made)
    cut = data.draw(st.integers(0, len(buf)))
    pos, why, run = take_sends(buf[:cut], 0, cut, FRAME_MAX)
    whole = [sum(map(len, made[:i])) for i in range(len(made) + 1)]
    assert pos == max(stop for stop in whole if stop <= cut)
    assert why == NEED
    assert (run.count if run else 0) == whole.index(pos)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(1, 3)), min_size=1, max_size=9))
def test_sends_of_several_producers_are_one_run_that_knows_the_owners(
    wanted: list[tuple[int, int, int]],
) -> None:
    made = [
        client_commands.send(
            producer_id, sequence, entry(b"%d" % i, count=messages), num_messages=messages
        )
        for i, (producer_id, sequence, messages) in enumerate(wanted)
    ]
    buf = b"".join(made)
    pos, why, run = take_sends(buf, 0, len(buf), FRAME_MAX)
    assert run is not None
    assert (pos, why, run.count) == (len(buf), NEED, len(wanted))
    owners = [producer_id for producer_id, _, _ in wanted]
    assert (run.owners or [run.producer_id] * run.count) == owners
    assert (run.owners is None) == (len(set(owners)) == 1)
    assert [s for s, _ in head_sequences(run.heads)] == [sequence for _, sequence, _ in wanted]
    chosen = [i for i in range(run.count) if owners[i] == owners[-1]]
    part = run.pick(chosen)
    assert (part.producer_id, part.owners, part.count) == (owners[-1], None, len(chosen))
    assert [part.entry(k) for k in range(part.count)] == [run.entry(i) for i in chosen]
    assert part.messages == sum(wanted[i][2] for i in chosen)
    assert part.size == sum(map(len, (part.entry(k) for k in range(part.count))))


TXNS = st.one_of(st.none(), st.tuples(st.sampled_from([0, 3, 2**63]), NUMBERS))


@given(NUMBERS, NUMBERS, st.lists(st.tuples(TXNS, SENDS), min_size=1, max_size=4))
def test_sends_of_one_transaction_are_one_run_that_knows_it(
    producer_id: int,
    sequence: int,
    wanted: list[
        tuple[tuple[int, int] | None, list[tuple[int, bytes, bool, int | None, int | None]]]
    ],
) -> None:
    sent: list[tuple[tuple[int, int] | None, int, bytes]] = []
    buf = b""
    for txn, messages in wanted:
        for _, value, checksum, count, above in messages:
            sequence = min(sequence + 1, 2**63 - 1)
            payload = entry(value, checksum, count)
            buf += client_commands.send(
                producer_id,
                sequence,
                payload,
                num_messages=count,
                highest_sequence_id=None if above is None else sequence,
                txn=txn,
            )
            sent.append((txn, sequence, payload))
    cut: list[tuple[tuple[int, int] | None, int, bytes]] = []
    runs, pos = 0, 0
    while pos < len(buf):
        pos, _, run = take_sends(buf, pos, len(buf), FRAME_MAX)
        assert run is not None
        runs += 1
        ids = [first for first, _ in head_sequences(run.heads)]
        cut += [(run.txn, ids[i], run.entry(i)) for i in range(run.count)]
        assert run.pick([0]).txn == run.txn
    assert cut == sent
    assert runs == 1 + sum(a[0] != b[0] for a, b in pairwise(sent))


@pytest.mark.parametrize("missing", ["txnid_least_bits", "txnid_most_bits"])
def test_half_of_a_transaction_takes_the_slow_path(missing: str) -> None:
    fields = {"producer_id": 7, "sequence_id": 1, "txnid_least_bits": 2, "txnid_most_bits": 1}
    del fields[missing]
    buf = frames.payload_frame(command_bytes("send", fields), entry(b"a"))
    assert take_sends(buf, 0, len(buf), FRAME_MAX) == (0, OTHER, None)


@pytest.mark.parametrize("field", [{"is_chunk": True}, {"marker": True}])
def test_sends_with_further_fields_take_the_slow_path(field: dict[str, object]) -> None:
    buf = sends(7, [b"a"]) + client_commands.send(7, 1, entry(b"b"), **field)  # type: ignore[arg-type]
    pos, why, run = take_sends(buf, 0, len(buf), FRAME_MAX)
    assert run is not None
    assert (run.count, why, pos) == (1, OTHER, len(sends(7, [b"a"])))


def test_a_highest_sequence_id_below_the_sequence_id_takes_the_slow_path() -> None:
    buf = client_commands.send(7, 9, entry(b"a"), highest_sequence_id=8)
    assert take_sends(buf, 0, len(buf), FRAME_MAX) == (0, OTHER, None)


@pytest.mark.parametrize(
    ("claimed", "held", "counted"),
    [
        (1_000_000, None, 1),
        (2**31 - 1, 3, 3),
        (2, 300, 300),
        (2, BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX),
        (2, BATCH_MESSAGES_MAX + 1, 1),
        (2**31 - 1, 2**31 - 1, 1),
        (5, -5, 1),
    ],
)
def test_a_send_counts_the_messages_of_its_entrys_metadata(
    claimed: int, held: int | None, counted: int
) -> None:
    single = client_commands.send(7, 0, entry(b"a"))
    batch = client_commands.send(7, 1, entry(b"b", count=held), num_messages=claimed)
    buf = single + batch + single
    run = take_sends(buf, 0, len(buf), FRAME_MAX)[2]
    assert run is not None
    assert [run.messages_of(i, i + 1) for i in range(run.count)] == [1, counted, 1]
    assert run.counts == batch_sizes(run.buf, run.spans) or counted == 1


@pytest.mark.parametrize("highest", [None, 2**63])
def test_sequence_ids_beyond_int64_take_the_slow_path(highest: int | None) -> None:
    sequence = 2**63 if highest is None else 2**63 - 1
    good = client_commands.send(7, 2**63 - 1, entry(b"a"))
    bad = client_commands.send(7, sequence, entry(b"b"), highest_sequence_id=highest)
    pos, why, run = take_sends(good + bad, 0, len(good + bad), FRAME_MAX)
    assert run is not None
    assert (pos, why, run.last_sequence) == (len(good), OTHER, 2**63 - 1)
    assert take_sends(bad, 0, len(bad), FRAME_MAX) == (0, OTHER, None)


def test_a_wrong_checksum_ends_the_run_before_its_frame() -> None:
    good = sends(7, [b"a", b"b"])
    bad = bytearray(sends(7, [b"c"]))
    bad[-1] ^= 1
    buf = good + bytes(bad)
    pos, why, run = take_sends(buf, 0, len(buf), FRAME_MAX)
    assert run is not None
    assert (pos, why, run.count) == (len(good), BAD_CHECKSUM, 2)


def test_a_frame_above_the_limit_is_detected_from_its_length_alone() -> None:
    buf = sends(7, [b"a"]) + pack(">I", 101)
    pos, why, run = take_sends(buf, 0, len(buf), 100)
    assert run is not None
    assert (why, pos) == (TOO_LARGE, len(buf) - 4)


@given(st.binary(max_size=80))
def test_no_kernel_fails_on_any_bytes(junk: bytes) -> None:
    end = len(junk)
    assert take_sends(junk, 0, end, FRAME_MAX)[0] <= end
    assert take_acks(junk, 0, end)[0] <= end
    assert take_adds(junk, 0, end, FRAME_MAX)[0] <= end
    assert take_add_replies(junk, 0, end)[0] <= end
    assert take_read_replies(junk, 0, end)[0] <= end
    assert batch_sizes(junk, [0, end]) is None or end > 4


@given(NUMBERS, SENDS, st.integers(0, 10_000), st.integers(0, 255))
def test_no_kernel_fails_on_a_damaged_run(
    producer_id: int,
    wanted: list[tuple[int, bytes, bool, int | None, int | None]],
    at: int,
    value: int,
) -> None:
    buf = bytearray(sends(producer_id, [wanted_send[1] for wanted_send in wanted]))
    buf[at % len(buf)] = value
    pos, _, run = take_sends(bytes(buf), 0, len(buf), FRAME_MAX)
    assert pos <= len(buf)
    assert run is None or all(
        a <= b <= pos for a, b in zip(run.spans[::2], run.spans[1::2], strict=True)
    )


@given(
    NUMBERS, NUMBERS, NUMBERS, st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=9)
)
def test_receipts_are_what_protobuf_builds(
    producer_id: int, ledger_id: int, first: int, wanted: list[tuple[int, bool]]
) -> None:
    buf = b"".join(
        client_commands.send(
            producer_id, s, entry(b""), highest_sequence_id=min(s + 5, 2**63 - 1) if high else None
        )
        for s, high in wanted
    )
    run = take_sends(buf, 0, len(buf), FRAME_MAX)[2]
    assert run is not None
    made = build_receipts(ledger_id, first, run.heads, 0, run.count)
    pos = 0
    for i, (sequence, high) in enumerate(wanted):
        stop = frames.frame_end(made, pos, len(made), FRAME_MAX)
        receipt = commands.parse(made, *frames.command_span(made, pos, stop)).send_receipt
        expected = commands.send_receipt(
            producer_id,
            sequence,
            Position(ledger_id, first + i),
            min(sequence + 5, 2**63 - 1) if high else None,
        )
        assert receipt == commands.parse(expected, 8, len(expected)).send_receipt
        pos = stop
    assert pos == len(made)


def a_run(entries: list[bytes], ledger_id: int = 5, first: int = 0) -> Slice:
    buf, spans = b"", []
    for payload in entries:
        spans += [len(buf) + 2, len(buf) + 2 + len(payload)]
        buf += b"--" + payload
    return Slice(buf, spans, sum(map(len, entries)), None, ledger_id, first)


@given(
    st.lists(st.binary(max_size=20), min_size=1, max_size=6),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.integers(-1, 300),
    st.one_of(st.none(), st.integers(0, 2**33)),
    st.one_of(st.none(), st.lists(st.integers(0, 200), min_size=6, max_size=6)),
)
def test_messages_are_what_protobuf_builds(
    entries: list[bytes],
    consumer_id: int,
    ledger_id: int,
    first: int,
    partition: int,
    epoch: int | None,
    counts: list[int] | None,
) -> None:
    run = a_run(entries, ledger_id, first)
    made = b"".join(build_messages(consumer_id, run, range(run.count), counts, epoch, partition))
    expected = b"".join(
        commands.message(
            consumer_id,
            run.position(i),
            payload,
            partition=partition,
            redelivery_count=counts[i] if counts else 0,
            consumer_epoch=epoch,
        )
        for i, payload in enumerate(entries)
    )
    assert made == expected


def test_large_entries_are_sent_as_views_of_the_received_buffer() -> None:
    run = a_run([b"x" * 20_000, b"y" * 30_000])
    parts = build_messages(1, run, range(2))
    views = [part for part in parts if isinstance(part, memoryview)]
    assert [view.obj for view in views] == [run.buf, run.buf]
    adds, _ = build_adds(run, 0, 2, 5, 0, -1, 0, KEY)
    assert len([part for part in adds if isinstance(part, memoryview)]) == 2
    assert len(build_messages(1, a_run([b"x"] * 9), range(9))) == 1


@given(
    st.lists(st.tuples(st.binary(max_size=20), st.integers(1, 300)), min_size=1, max_size=6),
    st.one_of(st.none(), NUMBERS),
    st.one_of(st.none(), st.integers(0, 2**40)),
)
def test_stamps_are_what_protobuf_builds_and_are_taken_off_again(
    given: list[tuple[bytes, int]], time_ms: int | None, index: int | None
) -> None:
    entries = [entry for entry, _ in given]
    run = a_run(entries)
    run.counts = [count for _, count in given]
    made = stamped(run, time_ms, index)
    made.ledger_id, made.first = run.ledger_id, run.first
    seen = -1
    for i, (entry, count) in enumerate(given):
        seen += count
        last = None if index is None else index + seen
        front = pb.BrokerEntryMetadata(broker_timestamp=time_ms, index=last).SerializeToString()
        whole = b"\x0e\x02" + len(front).to_bytes(4, "big") + front + entry
        assert made.entry(i) == whole
        assert entry_stamp(whole) == (time_ms, last)
        assert bare(whole) == entry
    assert (made.size, made.counts) == (sum(map(len, entries)) + made.size - run.size, run.counts)
    plain = b"".join(build_messages(1, run, range(run.count)))
    assert b"".join(build_messages(1, made, range(run.count))) == plain
    with_front = b"".join(build_messages(1, made, range(run.count), bare=False))
    assert len(with_front) - len(plain) == made.size - run.size


def test_large_entries_are_stamped_as_small_ones() -> None:
    entries = [b"x" * 20_000, b"y" * 30_000]
    made = stamped(a_run(entries), 1, 2)
    assert [bare(made.entry(i)) for i in range(2)] == entries


@given(st.binary(max_size=30))
def test_bytes_that_resemble_a_stamp_never_raise(tail: bytes) -> None:
    for entry in (b"\x0e\x02" + tail, b"\x0e\x02\x00\x00\x00" + tail):
        entry_stamp(entry)
        assert entry.endswith(bare(entry))
        build_messages(1, a_run([entry, entry]), range(2))


ACKS = st.lists(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3), min_size=1, max_size=6
)


@given(NUMBERS, ACKS, st.data())
def test_acks_give_the_positions_protobuf_reads(
    consumer_id: int, wanted: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    made = [client_commands.ack(consumer_id, [Position(*p) for p in ids]) for ids in wanted]
    buf = b"".join(made)
    pos, why, consumer_read, positions = take_acks(buf, 0, len(buf))
    assert (pos, why, consumer_read) == (len(buf), NEED, consumer_id)
    assert positions == [Position(*p) for ids in wanted for p in ids]
    assert all(isinstance(p, Position) for p in positions)
    cut = data.draw(st.integers(0, len(buf) - 1))
    whole = [sum(map(len, made[:i])) for i in range(len(made) + 1)]
    assert take_acks(buf[:cut], 0, cut)[0] == max(stop for stop in whole if stop <= cut)


@pytest.mark.parametrize(
    "other",
    [
        client_commands.ack(1, [Position(5, 2)], cumulative=True),
        client_commands.ack(1, [Position(5, 2)], request_id=4),
        client_commands.ack(1, [Position(5, 2)], ack_set=[3]),
        client_commands.ack(1, [Position(5, 2)], txn=(1, 1)),
        client_commands.ack(1, [Position(5, -1)]),
        client_commands.ack(1, []),
        client_commands.ack(2, [Position(5, 2)]),
        client_commands.flow(1, 5),
    ],
)
def test_acks_end_at_anything_but_a_plain_ack_of_the_same_consumer(other: bytes) -> None:
    plain = client_commands.ack(1, [Position(5, 1)])
    pos, why, consumer_id, positions = take_acks(plain + other, 0, len(plain + other))
    assert (pos, why, consumer_id, positions) == (len(plain), OTHER, 1, [Position(5, 1)])


@pytest.mark.parametrize("broker_metadata", [b"", b"\x0e\x02\x00\x00\x00\x02\x08\x58"])
def test_batch_sizes_read_the_count_behind_all_headers(broker_metadata: bytes) -> None:
    single = broker_metadata + entry(b"X" * 10)
    three = broker_metadata + pack_entry(
        [Message(b"a", properties={"X": "X"})] * 3, producer_name="XXX", publish_ms=88
    )
    run = a_run([single, three, single, three])
    assert batch_sizes(run.buf, run.spans) == [1, 3, 1, 3]
    run = a_run([single] * 3)
    assert batch_sizes(run.buf, run.spans) is None


@given(st.binary(max_size=60))
def test_batch_sizes_take_damaged_metadata_for_a_single_message(junk: bytes) -> None:
    sizes = batch_sizes(b"\x00\x00\x00" + bytes([len(junk)]) + junk, [0, 4 + len(junk)])
    assert sizes is None or 1 < sizes[0] < 2**31


@given(
    st.lists(
        st.builds(
            lambda tag, name, value, checked: pack_entry(
                [Message(value)],
                producer_name=name,
                publish_ms=88,
                extra={"marker_type": 1} if tag else {},
            )[0 if checked else 6 :],
            st.booleans(),
            st.sampled_from(["p", "q", "p" * 20, "p" * 240, "p" * 300]),
            st.sampled_from([b"", b"\xa0\x01" * 9, b"\xa0" * 300]),
            st.sampled_from([True] * 9 + [False]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_tagged_entries_are_those_with_the_tag_in_their_metadata(entries: list[bytes]) -> None:
    run = a_run(entries)
    spans = [
        metadata_span(run.buf, *run.spans[i : i + 2]) or (0, 0) for i in range(0, len(run.spans), 2)
    ]
    expected = [i for i, span in enumerate(spans) if b"\xa0\x01" in run.buf[slice(*span)]]
    assert tagged(run.buf, run.spans, (b"\xa0\x01",)) == expected
    assert tagged(run.buf, run.spans, (b"\x0a", b"\xa0\x01")) == list(range(len(entries)))


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=9))
def test_damaged_entries_have_no_batch_sizes_beside_others(junk: list[bytes]) -> None:
    batch = pack_entry([Message(b"a")] * 3, producer_name="p", publish_ms=88)
    run = a_run([batch, *junk, batch])
    sizes = batch_sizes(run.buf, run.spans)
    assert sizes is not None
    assert sizes[:: len(junk) + 1] == [3, 3]
    assert sizes == [
        messages_in(run.buf, *run.spans[i : i + 2]) for i in range(0, len(run.spans), 2)
    ]


def test_an_add_frame_has_the_published_bytes() -> None:
    run = a_run([b"hello"])
    parts, length = build_adds(
        run, 0, 1, 5, 0, -1, 0, bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
    )
    assert length == 5
    assert b"".join(parts).hex() == (
        "0000004102010000850bf1071c5e3d8c24235676f8816ae0cbe2f14f0000000000000005"
        "0000000000000000ffffffffffffffff0000000000000005b548f36968656c6c6f"
    )


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6), st.integers(0, 1 << 40), st.data())
def test_adds_round_trip_through_the_bookies_kernel(
    entries: list[bytes], first: int, data: st.DataObject
) -> None:
    run = a_run(entries)
    flags = data.draw(st.sampled_from([0, 2, 4, 6]))
    parts, length = build_adds(run, 0, run.count, 9, first, first - 1, 100, KEY, flags)
    buf = b"".join(parts)
    assert length == 100 + sum(map(len, entries))
    pos, why, runs = take_adds(buf, 0, len(buf), FRAME_MAX)
    assert (pos, why, len(runs)) == (len(buf), NEED, 1)
    (adds,) = runs
    assert (adds.ledger_id, adds.first, adds.count) == (9, first, len(entries))
    assert (adds.master_key, adds.flags) == (KEY, flags)
    total = 100
    for i, payload in enumerate(entries):
        stored = buf[adds.offsets[i] : adds.end(i)]
        total += len(payload)
        head = pack(">qqqq", 9, first + i, first - 1, total)
        assert stored == head + pack(">I", crc32c(payload, crc32c(head))) + payload
    cut = data.draw(st.integers(0, len(buf) - 1))
    assert take_adds(buf[:cut], 0, cut, FRAME_MAX)[0] <= cut
    replies = build_add_replies(buf, adds, 0)
    assert take_add_replies(replies, 0, len(replies)) == (
        len(replies),
        NEED,
        [(0, 9, first, len(entries))],
    )


def test_adds_split_where_ledger_key_flags_or_order_change() -> None:
    run = a_run([b"a", b"b"])
    other_key = hashlib.sha1(b"other").digest()
    pieces = [
        (1, 0, KEY, 0),
        (1, 2, KEY, 0),
        (2, 4, KEY, 0),
        (2, 6, other_key, 0),
        (2, 8, other_key, 6),
        (2, 20, other_key, 6),
    ]
    buf = b"".join(
        b"".join(build_adds(run, 0, 2, ledger, first, -1, 0, key, flags)[0])
        for ledger, first, key, flags in pieces
    )
    runs = take_adds(buf, 0, len(buf), FRAME_MAX)[2]
    assert [(r.ledger_id, r.first, r.count, r.master_key, r.flags) for r in runs] == [
        (1, 0, 4, KEY, 0),
        (2, 4, 2, KEY, 0),
        (2, 6, 2, other_key, 0),
        (2, 8, 2, other_key, 6),
        (2, 20, 2, other_key, 6),
    ]
    assert runs[0].end(3) == runs[0].stop == runs[1].start


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (bookie_commands.read_last_request(1), OTHER),
        (pack(">II20sqq", 40, 0x02010000, KEY, 1, 1), OTHER),
        (pack(">II20sqqqq", 56, 0x02010001, KEY, 1, 1, 0, 0), OTHER),
        (pack(">II20sqqqq", 56, 0x01010000, KEY, 1, 1, 0, 0), OTHER),
        (pack(">II20sqqqq", 56, 0x02010000, KEY, -1, 1, 0, 0), OTHER),
        (pack(">I", FRAME_MAX + 1), TOO_LARGE),
        (b"\x00\x00", NEED),
    ],
)
def test_a_run_of_adds_stops_at_any_other_frame(other: bytes, why: int) -> None:
    adds = b"".join(build_adds(a_run([b"a"]), 0, 1, 1, 0, -1, 0, KEY)[0])
    pos, reason, runs = take_adds(adds + other, 0, len(adds + other), FRAME_MAX)
    assert (pos, reason, len(runs)) == (len(adds), why, 1)


def test_replies_of_part_of_a_run_carry_their_ids_and_result() -> None:
    buf = b"".join(build_adds(a_run([b"a"] * 5), 0, 5, 7, 10, 9, 0, KEY)[0])
    (run,) = take_adds(buf, 0, len(buf), FRAME_MAX)[2]
    made = build_add_replies(buf, run, 104, 1, 3)
    assert made == bookie_commands.add_reply(104, 7, 11) + bookie_commands.add_reply(104, 7, 12)
    assert build_add_replies(buf, run, 0, 5) == b""


def test_add_replies_run_while_ledger_result_and_order_hold() -> None:
    made = [(0, 1, 5), (0, 1, 6), (104, 1, 7), (0, 1, 8), (0, 2, 9), (0, 2, 3)]
    buf = b"".join(bookie_commands.add_reply(*reply) for reply in made)
    read = bookie_commands.read_reply(0, 1, 2, b"stored")
    pos, why, runs = take_add_replies(buf + read, 0, len(buf + read))
    assert (pos, why) == (len(buf), OTHER)
    assert runs == [(0, 1, 5, 2), (104, 1, 7, 1), (0, 1, 8, 1), (0, 2, 9, 1), (0, 2, 3, 1)]


def test_read_replies_give_the_stored_entry_s_place() -> None:
    buf = b"".join(
        [
            bookie_commands.read_reply(0, 1, 2, b"stored"),
            bookie_commands.read_reply(2, 1, 3),
            bookie_commands.read_reply(0, 1, -1, b"last"),
        ]
    )
    pos, why, replies = take_read_replies(buf + b"\x00", 0, len(buf) + 1)
    assert (pos, why) == (len(buf), NEED)
    assert [(rc, ledger, at, buf[a:b]) for rc, ledger, at, a, b in replies] == [
        (0, 1, 2, b"stored"),
        (2, 1, 3, b""),
        (0, 1, -1, b"last"),
    ]


def test_the_tail_of_a_send_run_keeps_its_heads() -> None:
    buf = sends(7, [b"a", b"b", b"c"], sequence=40)
    run = take_sends(buf, 0, len(buf), FRAME_MAX)[2]
    assert isinstance(run, SendRun)
    rest = run.tail(1)
    assert (rest.count, rest.first_sequence, rest.last_sequence) == (2, 41, 42)
    assert rest.entry(0) == run.entry(1)
