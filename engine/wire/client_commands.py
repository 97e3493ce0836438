"""Frames of the commands that a client sends, for Magnetar's own client, the load tools and tests. Pure.

Builders return complete frames; None omits an optional field. Answers are parsed with ``commands.parse``.
"""

from collections.abc import Mapping, Sequence

from engine.base.ids import Position
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import (
    PROTOCOL_VERSION,
    command_bytes,
    command_frame,
    key_values,
    message_id,
)
from engine.wire.varints import UINT64_MAX


def connect(
    client_version: str,
    *,
    protocol_version: int = PROTOCOL_VERSION,
    auth_method_name: str | None = None,
    auth_data: bytes | None = None,
    proxy_to_broker_url: str | None = None,
    original_principal: str | None = None,
    original_auth_method: str | None = None,
    original_auth_data: bytes | None = None,
    feature_flags: Mapping[str, bool] | pb.FeatureFlags | None = None,
    proxy_version: str | None = None,
) -> bytes:
    """Build CONNECT, the first command of a connection. Of a proxy, ``original_…`` is its client's."""
    return command_frame(
        "connect",
        client_version=client_version,
        protocol_version=protocol_version,
        auth_method_name=auth_method_name,
        auth_data=auth_data,
        proxy_to_broker_url=proxy_to_broker_url,
        original_principal=original_principal,
        original_auth_method=original_auth_method,
        original_auth_data=original_auth_data,
        feature_flags=dict(feature_flags) if isinstance(feature_flags, Mapping) else feature_flags,
        proxy_version=proxy_version,
    )


def auth_response(
    auth_method_name: str, auth_data: bytes, client_version: str | None = None
) -> bytes:
    """Build the answer to AUTH_CHALLENGE."""
    return command_frame(
        "authResponse",
        client_version=client_version,
        response={"auth_method_name": auth_method_name, "auth_data": auth_data},
        protocol_version=PROTOCOL_VERSION,
    )


def partitioned_metadata(
    topic: str, request_id: int, *, metadata_auto_creation_enabled: bool | None = None
) -> bytes:
    return command_frame(
        "partitionMetadata",
        topic=topic,
        request_id=request_id,
        metadata_auto_creation_enabled=metadata_auto_creation_enabled,
    )


def lookup(
    topic: str, request_id: int, *, authoritative: bool = False, listener_name: str | None = None
) -> bytes:
    return command_frame(
        "lookupTopic",
        topic=topic,
        request_id=request_id,
        authoritative=authoritative,
        advertised_listener_name=listener_name,
    )


def topics_of_namespace(
    namespace: str,
    request_id: int,
    *,
    mode: int | None = None,
    topics_pattern: str | None = None,
    topics_hash: str | None = None,
) -> bytes:
    """Build GET_TOPICS_OF_NAMESPACE. ``mode``: number of CommandGetTopicsOfNamespace.Mode."""
    return command_frame(
        "getTopicsOfNamespace",
        namespace=namespace,
        request_id=request_id,
        mode=mode,
        topics_pattern=topics_pattern,
        topics_hash=topics_hash,
    )


def producer(
    topic: str,
    producer_id: int,
    request_id: int,
    *,
    producer_name: str | None = None,
    epoch: int | None = None,
    metadata: Mapping[str, str] | None = None,
    schema: pb.Schema | None = None,
    user_provided_producer_name: bool | None = None,
    access_mode: int | None = None,
    topic_epoch: int | None = None,
) -> bytes:
    """Build PRODUCER. ``access_mode``: number of ProducerAccessMode."""
    return command_frame(
        "producer",
        topic=topic,
        producer_id=producer_id,
        request_id=request_id,
        producer_name=producer_name,
        epoch=epoch,
        metadata=key_values(metadata or {}),
        schema=schema,
        user_provided_producer_name=user_provided_producer_name,
        producer_access_mode=access_mode,
        topic_epoch=topic_epoch,
    )


def send(
    producer_id: int,
    sequence_id: int,
    entry: bytes,
    *,
    num_messages: int | None = None,
    highest_sequence_id: int | None = None,
    is_chunk: bool | None = None,
    marker: bool | None = None,
    txn: tuple[int, int] | None = None,
    position: Position | None = None,
) -> bytes:
    """Build SEND. ``entry``: checksum, metadata and payload, see ``batches.pack_entry``. ``txn``: most and least
    significant bits. ``position``: that of an entry of the source, for a shadow topic."""
    body = {
        "producer_id": producer_id,
        "sequence_id": sequence_id,
        "num_messages": num_messages,
        "txnid_least_bits": txn[1] if txn else None,
        "txnid_most_bits": txn[0] if txn else None,
        "highest_sequence_id": highest_sequence_id,
        "is_chunk": is_chunk,
        "marker": marker,
        "message_id": None if position is None else message_id(position),
    }
    return frames.payload_frame(command_bytes("send", body), entry)


def close_producer(producer_id: int, request_id: int) -> bytes:
    return command_frame("close_producer", producer_id=producer_id, request_id=request_id)


def subscribe(
    topic: str,
    subscription: str,
    sub_type: int,
    consumer_id: int,
    request_id: int,
    *,
    consumer_name: str | None = None,
    priority_level: int | None = None,
    durable: bool | None = None,
    start: Position | None = None,
    initial_position: int | None = None,
    read_compacted: bool | None = None,
    schema: pb.Schema | None = None,
    metadata: Mapping[str, str] | None = None,
    force_topic_creation: bool | None = None,
    consumer_epoch: int | None = None,
    replicated: bool | None = None,
) -> bytes:
    """Build SUBSCRIBE. ``sub_type`` and ``initial_position``: numbers of SubType and InitialPosition."""
    return command_frame(
        "subscribe",
        topic=topic,
        subscription=subscription,
        subType=sub_type,
        consumer_id=consumer_id,
        request_id=request_id,
        consumer_name=consumer_name,
        priority_level=priority_level,
        durable=durable,
        start_message_id=None if start is None else message_id(start),
        metadata=key_values(metadata or {}),
        read_compacted=read_compacted,
        schema=schema,
        initialPosition=initial_position,
        force_topic_creation=force_topic_creation,
        consumer_epoch=consumer_epoch,
        replicate_subscription_state=replicated,
    )


def flow(consumer_id: int, permits: int) -> bytes:
    """Build FLOW, which permits the broker to send ``permits`` more messages."""
    return command_frame("flow", consumer_id=consumer_id, messagePermits=permits)


def ack(
    consumer_id: int,
    positions: Sequence[Position],
    *,
    cumulative: bool = False,
    ack_set: Sequence[int] | None = None,
    batch_size: int | None = None,
    request_id: int | None = None,
    txn: tuple[int, int] | None = None,
    validation_error: int | None = None,
) -> bytes:
    """Build ACK. ``ack_set`` (bits set: not yet acknowledged) and ``batch_size``, the number of messages in the batch,
    are sent with each position."""
    part = {"ack_set": ack_set, "batch_size": batch_size}
    return command_frame(
        "ack",
        consumer_id=consumer_id,
        ack_type=int(cumulative),
        message_id=[message_id(position) | part for position in positions],
        txnid_least_bits=txn[1] if txn else None,
        txnid_most_bits=txn[0] if txn else None,
        request_id=request_id,
        validation_error=validation_error,
    )


def redeliver(
    consumer_id: int, positions: Sequence[Position] = (), consumer_epoch: int | None = None
) -> bytes:
    """Build a request to send the given positions, or everything that is not acknowledged, again."""
    return command_frame(
        "redeliverUnacknowledgedMessages",
        consumer_id=consumer_id,
        message_ids=[message_id(position) for position in positions],
        consumer_epoch=consumer_epoch,
    )


def seek(
    consumer_id: int,
    request_id: int,
    *,
    position: Position | None = None,
    publish_ms: int | None = None,
    ack_set: Sequence[int] | None = None,
) -> bytes:
    """Build SEEK. ``ack_set``: bits of the messages in a batch at ``position`` that are to be sent again."""
    return command_frame(
        "seek",
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=None if position is None else message_id(position) | {"ack_set": ack_set},
        message_publish_time=publish_ms,
    )


def unsubscribe(consumer_id: int, request_id: int, force: bool | None = None) -> bytes:
    return command_frame("unsubscribe", consumer_id=consumer_id, request_id=request_id, force=force)


def close_consumer(consumer_id: int, request_id: int) -> bytes:
    return command_frame("close_consumer", consumer_id=consumer_id, request_id=request_id)


def consumer_stats(consumer_id: int, request_id: int) -> bytes:
    return command_frame("consumerStats", consumer_id=consumer_id, request_id=request_id)


def get_last_message_id(consumer_id: int, request_id: int) -> bytes:
    return command_frame("getLastMessageId", consumer_id=consumer_id, request_id=request_id)


def get_schema(topic: str, request_id: int, schema_version: bytes | None = None) -> bytes:
    return command_frame(
        "getSchema", request_id=request_id, topic=topic, schema_version=schema_version
    )


def get_or_create_schema(topic: str, request_id: int, schema: pb.Schema) -> bytes:
    return command_frame("getOrCreateSchema", request_id=request_id, topic=topic, schema=schema)


# Transactions


def connect_coordinator(coordinator: int, request_id: int) -> bytes:
    """Build TC_CLIENT_CONNECT_REQUEST, before a client uses a transaction coordinator."""
    return command_frame("tcClientConnectRequest", request_id=request_id, tc_id=coordinator)


def new_transaction(coordinator: int, request_id: int, timeout_ms: int) -> bytes:
    return command_frame(
        "newTxn", request_id=request_id, txn_ttl_millis=timeout_ms, tc_id=coordinator
    )


def add_partitions(txn: tuple[int, int], request_id: int, topics: Sequence[str]) -> bytes:
    """Build ADD_PARTITION_TO_TXN. ``txn``: most and least significant bits."""
    return command_frame(
        "addPartitionToTxn",
        request_id=request_id,
        txnid_least_bits=txn[1],
        txnid_most_bits=txn[0],
        partitions=topics,
    )


def add_subscriptions(
    txn: tuple[int, int], request_id: int, subscriptions: Sequence[tuple[str, str]]
) -> bytes:
    """Build ADD_SUBSCRIPTION_TO_TXN. ``subscriptions``: topics and subscriptions."""
    return command_frame(
        "addSubscriptionToTxn",
        request_id=request_id,
        txnid_least_bits=txn[1],
        txnid_most_bits=txn[0],
        subscription=[
            {"topic": topic, "subscription": subscription} for topic, subscription in subscriptions
        ],
    )


def end_transaction(txn: tuple[int, int], request_id: int, *, commit: bool) -> bytes:
    return command_frame(
        "endTxn",
        request_id=request_id,
        txnid_least_bits=txn[1],
        txnid_most_bits=txn[0],
        txn_action=pb.COMMIT if commit else pb.ABORT,
    )


def end_on_partition(
    txn: tuple[int, int], request_id: int, topic: str, *, commit: bool, low_water_mark: int
) -> bytes:
    """Build a coordinator's request to a topic's broker to end a transaction there. ``low_water_mark`` -1: none."""
    return command_frame(
        "endTxnOnPartition",
        request_id=request_id,
        txnid_least_bits=txn[1],
        txnid_most_bits=txn[0],
        topic=topic,
        txn_action=pb.COMMIT if commit else pb.ABORT,
        txnid_least_bits_of_low_watermark=low_water_mark & UINT64_MAX,
    )


def end_on_subscription(
    txn: tuple[int, int],
    request_id: int,
    topic: str,
    subscription: str,
    *,
    commit: bool,
    low_water_mark: int,
) -> bytes:
    """Build a coordinator's request to end a transaction on a subscription; see ``end_on_partition``."""
    return command_frame(
        "endTxnOnSubscription",
        request_id=request_id,
        txnid_least_bits=txn[1],
        txnid_most_bits=txn[0],
        subscription={"topic": topic, "subscription": subscription},
        txn_action=pb.COMMIT if commit else pb.ABORT,
        txnid_least_bits_of_low_watermark=low_water_mark & UINT64_MAX,
    )
