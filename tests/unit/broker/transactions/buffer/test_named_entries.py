from engine.base.slices import Slice
from engine.broker.transactions.buffer.named_entries import name_transaction
from engine.broker.transactions.txn_id import TxnId
from engine.wire.batches import unpack_entry
from tests.support.raw_client import entry_of

TXN = TxnId(3, 1 << 40)


def run_of(entry: bytes) -> Slice:
    return Slice(b"xx" + entry, [2, 2 + len(entry)], len(entry))


def test_a_transaction_that_only_the_send_named_is_written_into_the_entry() -> None:
    run = run_of(entry_of(b"value", event_time=0xB801, ordering_key=b"\xb8\x01"))
    name_transaction(run, TXN)
    assert run.size == len(run.entry(0))
    opened = unpack_entry(run.entry(0))  # its checksum is verified
    metadata = opened.metadata
    assert (metadata.txnid_most_bits, metadata.txnid_least_bits) == TXN
    assert (metadata.event_time, metadata.ordering_key) == (0xB801, b"\xb8\x01")
    assert [message.value for message in opened.messages] == [b"value"]


def test_an_entry_that_names_one_is_left_as_it_was_sent() -> None:
    entry = entry_of(b"value", txnid_most_bits=7, txnid_least_bits=1)
    run = run_of(entry)
    name_transaction(run, TXN)
    assert run.entry(0) == entry
