"""Records of a subscription's log of pending acknowledgements, with Apache's bytes. Pure."""

from collections.abc import Iterable

from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId
from engine.wire import pulsar_pb2 as pb


def ack_record(txn: TxnId, acks: Iterable[StatedAck], *, cumulative: bool) -> bytes:
    """Return the record of acknowledgements that a transaction made. Apache's brokers state zeros."""
    kind = pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual
    return pb.PendingAckMetadataEntry(
        pending_ack_op=pb.PendingAckMetadataEntry.ACK,
        ack_type=kind,
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
        pending_ack_metadata=[
            pb.PendingAckMetadata(
                ledgerId=ack.position.ledger_id,
                entryId=ack.position.entry_id,
                ack_set=ack.ack_set,
                batch_size=ack.batch_size,
            )
            for ack in acks
        ],
    ).SerializeToString()


def end_record(txn: TxnId, *, commit: bool, cumulative: bool = False) -> bytes:
    """Return the record of a transaction's end. ``cumulative``: its acknowledgement was."""
    operation = pb.PendingAckMetadataEntry.COMMIT if commit else pb.PendingAckMetadataEntry.ABORT
    return pb.PendingAckMetadataEntry(
        pending_ack_op=operation,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
    ).SerializeToString()
