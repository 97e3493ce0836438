"""Markers are entries that Apache's brokers read as their own."""

import pytest

from engine.base.slices import Slice
from engine.broker.dispatch.facts import MARKER, TRANSACTION, facts_of
from engine.broker.transactions.buffer.end_markers import ABORT, COMMIT, marker
from engine.broker.transactions.txn_id import TxnId
from engine.wire.batches import unpack_entry


@pytest.mark.parametrize(("commit", "kind"), [(True, COMMIT), (False, ABORT)])
def test_a_marker_names_the_transaction_and_has_no_message(commit: bool, kind: int) -> None:
    entry = marker(TxnId(0, 1 << 40), commit=commit, now_ms=5)
    opened = unpack_entry(entry)
    metadata = opened.metadata
    assert (metadata.producer_name, metadata.publish_time) == ("pulsar.txn.marker", 5)
    assert metadata.sequence_id == (1 << 64) - 1
    assert (opened.messages, opened.packed_bytes) == ([], 0)
    run = Slice(entry, [0, len(entry)], len(entry))
    facts = facts_of(run, MARKER | TRANSACTION).special[0]
    assert (facts.marker, facts.transaction) == (kind, (0, 1 << 40))
