"""Records of a transaction coordinator's log, with Apache's bytes. Pure.

``newest``, in each record, is the highest id that the coordinator has handed out: after recovery its counter continues
behind that of the last record. Apache's brokers state zeros.
"""

from collections.abc import Iterable

from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb

Entry = pb.TransactionMetadataEntry


def new_record(
    txn: TxnId, *, timeout_ms: int, started_ms: int, newest: int, owner: str | None
) -> bytes:
    """Return the record of a transaction that begins. ``owner``: its role; None without authentication."""
    return Entry(
        metadata_op=Entry.NEW,
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
        timeout_ms=timeout_ms,
        start_time=started_ms,
        last_modification_time=started_ms,
        max_local_txn_id=newest,
        owner=owner,
    ).SerializeToString()


def partitions_record(
    txn: TxnId, partitions: Iterable[str], *, changed_ms: int, newest: int
) -> bytes:
    """Return the record of topics, by full name, that a transaction publishes to."""
    return Entry(
        metadata_op=Entry.ADD_PARTITION,
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
        partitions=partitions,
        last_modification_time=changed_ms,
        max_local_txn_id=newest,
    ).SerializeToString()


def subscriptions_record(
    txn: TxnId, subscriptions: Iterable[tuple[str, str]], *, changed_ms: int, newest: int
) -> bytes:
    """Return the record of subscriptions, each with the topic's full name, on which a transaction acknowledges."""
    return Entry(
        metadata_op=Entry.ADD_SUBSCRIPTION,
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
        subscriptions=[
            pb.Subscription(topic=topic, subscription=subscription)
            for topic, subscription in subscriptions
        ],
        last_modification_time=changed_ms,
        max_local_txn_id=newest,
    ).SerializeToString()


def status_record(
    txn: TxnId,
    expected: Entry.TxnStatus,
    status: Entry.TxnStatus,
    *,
    changed_ms: int,
    newest: int,
) -> bytes:
    """Return the record of a change of a transaction's state."""
    return Entry(
        metadata_op=Entry.UPDATE,
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
        expected_status=expected,
        new_status=status,
        last_modification_time=changed_ms,
        max_local_txn_id=newest,
    ).SerializeToString()
