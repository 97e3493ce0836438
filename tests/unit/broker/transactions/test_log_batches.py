import pytest

from engine.broker.transactions.log_batches import coordinator_records, pending_ack_records
from engine.broker.transactions.pending.ack_records import end_record
from engine.broker.transactions.txn_id import TxnId
from engine.managed.errors import StoredRecordError


def test_a_batch_of_pending_acknowledgements() -> None:
    first, second = (end_record(TxnId(1, n), commit=True) for n in (0, 1))
    body = b"".join(b"\x0a" + bytes([len(record)]) + record for record in (first, second))
    records = pending_ack_records(bytes.fromhex("0e01 0001") + body)
    assert [record.txnid_least_bits for record in records] == [0, 1]


@pytest.mark.parametrize("read", [coordinator_records, pending_ack_records])
@pytest.mark.parametrize("payload", ["0e01 0002", "0e01 0001 ff", "ff"])
def test_a_damaged_record_is_refused(read, payload) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(StoredRecordError):
        read(bytes.fromhex(payload))
