from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.slices import Slice
from engine.broker.errors import NotAllowed
from engine.broker.transactions.buffer.named_entries import name_transaction
from engine.broker.transactions.txn_id import TxnId
from engine.wire.batches import Message, pack_entry, unpack_entry
from tests.support.raw_client import entry_of

TXN = TxnId(3, 1 << 40)
NAMED = {"txnid_most_bits": TXN.most, "txnid_least_bits": TXN.least}


def run_of(*entries: bytes) -> Slice:
    buf, spans = b"xx", list[int]()
    for entry in entries:
        spans += (len(buf), len(buf) + len(entry))
        buf += entry + b"yy"
    return Slice(buf, spans, sum(map(len, entries)))


def test_a_transaction_that_only_the_send_named_is_written_into_the_entry() -> None:
    run = run_of(entry_of(b"value", event_time=0xB801, ordering_key=b"\xb8\x01"))
    name_transaction(run, TXN)
    assert run.size == len(run.entry(0))
    opened = unpack_entry(run.entry(0))  # its checksum is verified
    metadata = opened.metadata
    assert (metadata.txnid_most_bits, metadata.txnid_least_bits) == TXN
    assert (metadata.event_time, metadata.ordering_key) == (0xB801, b"\xb8\x01")
    assert [message.value for message in opened.messages] == [b"value"]


def test_entries_of_a_run_that_name_it_are_left_as_they_were_sent() -> None:
    named, bare = entry_of(b"a", **NAMED), entry_of(b"b")
    old = pack_entry([Message(b"c")], producer_name="p", publish_ms=1, checksum=False, extra=NAMED)
    run = run_of(named, old)
    before = run.buf
    name_transaction(run, TXN)
    assert run.buf is before
    run = run_of(named, bare, old)
    name_transaction(run, TXN)
    assert (run.entry(0), run.entry(2)) == (named, old)
    assert unpack_entry(run.entry(1)).metadata.txnid_least_bits == TXN.least
    assert run.size == sum(len(run.entry(i)) for i in range(3))


METADATA = st.fixed_dictionaries(
    {"sequence_id": st.sampled_from([0, 5, 127, 128, 1 << 40])},
    optional={
        "publish_time": st.sampled_from([1, 1_700_000_000_000, 1_700_000_000_001]),
        "producer_name": st.sampled_from(["", "raw", "rbw"]),
        "partition_key": st.sampled_from(["a", "b"]),
        "txnid_most_bits": st.sampled_from([TXN.most, TXN.most + 1]),
        "txnid_least_bits": st.sampled_from([TXN.least, TXN.least + 1]),
    },
)


@given(st.lists(st.tuples(METADATA, st.binary(max_size=3), st.booleans()), min_size=1, max_size=8))
def test_each_entry_of_a_run_is_judged_as_it_is_alone(
    wanted: list[tuple[dict[str, Any], bytes, bool]],
) -> None:
    entries = [
        pack_entry(
            [Message(value)], producer_name="raw", publish_ms=1, checksum=sealed, extra=extra
        )
        for extra, value, sealed in wanted
    ]

    def named(run: Slice) -> list[bytes] | None:
        try:
            name_transaction(run, TXN)
        except NotAllowed:
            return None
        return [run.entry(i) for i in range(run.count)]

    alone = [named(run_of(entry)) for entry in entries]
    expected = None if None in alone else [run[0] for run in alone if run is not None]
    assert named(run_of(*entries)) == expected


@pytest.mark.parametrize(
    "entry",
    [
        entry_of(b"v", txnid_most_bits=7, txnid_least_bits=1),
        entry_of(b"v", txnid_most_bits=TXN.most),
        entry_of(b"v", txnid_most_bits=TXN.most, txnid_least_bits=0),
        b"\x00\x00\x00\x04\x0a\x7f\xb8\x01",
        b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x09\xb8\x01",
        b"\x0e\x01",
    ],
)
def test_an_entry_that_names_another_one_or_cannot_be_read_is_refused(entry: bytes) -> None:
    with pytest.raises(NotAllowed):
        name_transaction(run_of(entry_of(b"a", **NAMED), entry), TXN)
