"""Markers of replicated subscriptions, encoded as Apache's brokers encode them. Pure.

A marker is an entry that a broker wrote for brokers. A snapshot relates positions of one topic in several clusters: a
request asks the other clusters for their last positions, a response has one, and the snapshot has all of them. An
update has the positions of a snapshot that a subscription passed.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as AnyMessage

from engine.base.crc32c import crc32c
from engine.base.ids import Position
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import CHECKSUM_MAGIC, metadata_span
from engine.wire.texts import readable
from engine.wire.varints import INT64_MAX, UINT64_MAX

REQUEST = pb.REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST
RESPONSE = pb.REPLICATED_SUBSCRIPTION_SNAPSHOT_RESPONSE
SNAPSHOT = pb.REPLICATED_SUBSCRIPTION_SNAPSHOT
UPDATE = pb.REPLICATED_SUBSCRIPTION_UPDATE
SENT = frozenset({REQUEST, RESPONSE, UPDATE})
"""Types of the markers that other clusters need."""
_PRODUCER = "pulsar.marker"
_MAGIC, _SIZE = Struct(">HI"), Struct(">I")


class SnapshotRequest(NamedTuple):
    """The request of the cluster ``source`` for the last position of the cluster that reads it."""

    snapshot_id: str
    source: str


class SnapshotResponse(NamedTuple):
    """The last position of the topic in ``cluster`` when it read the request of a snapshot."""

    snapshot_id: str
    cluster: str
    position: Position


class ClusterSnapshot(NamedTuple):
    """``positions``: by other cluster, a position there that is passed by who passed ``here`` in this one."""

    snapshot_id: str
    here: Position
    positions: dict[str, Position]


class SubscriptionUpdate(NamedTuple):
    """``positions``: by cluster, a position up to which ``subscription`` needs nothing any more."""

    subscription: str
    positions: dict[str, Position]


def request_marker(request: SnapshotRequest, now_ms: int) -> bytes:
    """Return the entry of a request, for all other clusters."""
    payload = pb.ReplicatedSubscriptionsSnapshotRequest(
        snapshot_id=request.snapshot_id, source_cluster=request.source
    )
    return _marker(REQUEST, payload, now_ms)


def response_marker(response: SnapshotResponse, to: str, now_ms: int) -> bytes:
    """Return the entry of a response, for the cluster ``to`` alone."""
    payload = pb.ReplicatedSubscriptionsSnapshotResponse(
        snapshot_id=response.snapshot_id, cluster=_place(response.cluster, response.position)
    )
    return _marker(RESPONSE, payload, now_ms, to)


def snapshot_marker(snapshot: ClusterSnapshot, cluster: str, now_ms: int) -> bytes:
    """Return the entry of a snapshot, for ``cluster``, its own, alone."""
    payload = pb.ReplicatedSubscriptionsSnapshot(
        snapshot_id=snapshot.snapshot_id,
        local_message_id=_id_of(snapshot.here),
        clusters=_places(snapshot.positions),
    )
    return _marker(SNAPSHOT, payload, now_ms, cluster)


def update_marker(update: SubscriptionUpdate, now_ms: int) -> bytes:
    """Return the entry of an update, for all other clusters."""
    payload = pb.ReplicatedSubscriptionsUpdate(
        subscription_name=update.subscription, clusters=_places(update.positions)
    )
    return _marker(UPDATE, payload, now_ms)


def read_marker(
    entry: bytes, kind: int
) -> SnapshotRequest | SnapshotResponse | ClusterSnapshot | SubscriptionUpdate | None:
    """Return what a marker of the type ``kind`` says; None for other types and for one that cannot be decoded."""
    span = metadata_span(entry, 0, len(entry))
    if span is None:
        return None
    payload = entry[span[1] :]
    try:
        if kind == REQUEST:
            request = pb.ReplicatedSubscriptionsSnapshotRequest.FromString(payload)
            return SnapshotRequest(readable(request.snapshot_id), readable(request.source_cluster))
        if kind == RESPONSE:
            response = pb.ReplicatedSubscriptionsSnapshotResponse.FromString(payload)
            position = _position(response.cluster.message_id)
            cluster = readable(response.cluster.cluster)
            return SnapshotResponse(readable(response.snapshot_id), cluster, position)
        if kind == SNAPSHOT:
            snapshot = pb.ReplicatedSubscriptionsSnapshot.FromString(payload)
            here = _position(snapshot.local_message_id)
            return ClusterSnapshot(
                readable(snapshot.snapshot_id), here, _positions(snapshot.clusters)
            )
        if kind == UPDATE:
            update = pb.ReplicatedSubscriptionsUpdate.FromString(payload)
            return SubscriptionUpdate(
                readable(update.subscription_name), _positions(update.clusters)
            )
    except (DecodeError, ValueError):
        return None
    return None


def _marker(kind: int, payload: AnyMessage, now_ms: int, only_to: str = "") -> bytes:
    metadata = pb.MessageMetadata(
        producer_name=_PRODUCER,
        sequence_id=0,
        publish_time=now_ms,
        marker_type=kind,
        replicate_to=[only_to] if only_to else [],
    ).SerializeToString()
    body = _SIZE.pack(len(metadata)) + metadata + payload.SerializeToString()
    return _MAGIC.pack(CHECKSUM_MAGIC, crc32c(body)) + body


def _id_of(position: Position) -> pb.MarkersMessageIdData:
    # Before the first entry of a ledger the entry id is -1, which the field without a sign holds as 2^64 - 1.
    entry_id = position.entry_id & UINT64_MAX
    return pb.MarkersMessageIdData(ledger_id=position.ledger_id, entry_id=entry_id)


def _place(cluster: str, position: Position) -> pb.ClusterMessageId:
    return pb.ClusterMessageId(cluster=cluster, message_id=_id_of(position))


def _places(positions: Mapping[str, Position]) -> list[pb.ClusterMessageId]:
    return [_place(cluster, positions[cluster]) for cluster in sorted(positions)]


def _position(message_id: pb.MarkersMessageIdData) -> Position:
    """Return a position. Raises ValueError for one that no ledger can have."""
    ledger_id = message_id.ledger_id
    entry_id = -1 if message_id.entry_id == UINT64_MAX else message_id.entry_id
    if not message_id.IsInitialized() or max(ledger_id, entry_id) > INT64_MAX:
        raise ValueError(f"{ledger_id}:{entry_id} is no position")
    return Position(ledger_id, entry_id)


def _positions(places: Iterable[pb.ClusterMessageId]) -> dict[str, Position]:
    return {readable(place.cluster): _position(place.message_id) for place in places}
