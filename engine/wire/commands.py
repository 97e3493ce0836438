"""Frames of the commands that a broker sends, and parsing of every command. Pure.

Builders return complete frames. An argument of None omits the optional field, which for a client differs from the
field's default. Commands that a client sends are in ``client_commands``. ``error`` is a number of ``ServerError``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError, Message

from engine.base.errors import PeerError
from engine.base.ids import Position
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.texts import invalid_text_field
from engine.wire.varints import UINT64_MAX

PROTOCOL_VERSION = 21
"""The newest version of Pulsar's protocol that Magnetar supports."""
PULSAR_VERSION = "4.0.8"
"""Apache Pulsar release whose protocol is implemented; it is sent to clients and brokers."""
SERVER_VERSION = f"Pulsar Server{PULSAR_VERSION}"
"""Version of the server in CONNECTED."""
NO_REQUEST = UINT64_MAX
"""Request id (-1) of an ERROR or CLOSE that answers no request."""
NOWHERE = Position(-1, -1)
"""Message id in the receipt of a message that was not stored: a duplicate, or one that an Apache Pulsar broker dropped
by a limit."""

FIELD_OF_TYPE: dict[int, str] = {
    field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.number > 1
}
"""Name of BaseCommand's field by command type: the type's number is the field's."""
_TYPE_OF_FIELD = {name: number for number, name in FIELD_OF_TYPE.items()}


class MalformedCommandError(PeerError):
    """A command that does not parse, lacks a required field or its body, or has text that is not UTF-8. The connection
    to its peer is closed."""


def parse(buf: bytes, start: int, stop: int) -> pb.BaseCommand:
    """Return the command in ``buf[start:stop]``. Raises MalformedCommandError, also for unknown command types."""
    try:
        command = pb.BaseCommand.FromString(buf[start:stop])
    except DecodeError as error:
        raise MalformedCommandError(f"command of {stop - start} bytes does not parse") from error
    if not command.HasField("type"):
        raise MalformedCommandError("command of unknown type")
    if not command.HasField(FIELD_OF_TYPE[command.type]):
        raise MalformedCommandError(f"command {command_name(command.type)} lacks its body")
    if not command.IsInitialized():
        raise MalformedCommandError(f"command {command_name(command.type)} lacks a required field")
    invalid_field = invalid_text_field(command, FIELD_OF_TYPE[command.type])
    if invalid_field is not None:
        raise MalformedCommandError(
            f"command {command_name(command.type)}: {invalid_field} is not UTF-8"
        )
    return command


def command_name(kind: int) -> str:
    """Return Pulsar's name of a command type."""
    return str(pb.BaseCommand.Type.Name(kind))


def command_bytes(field: str, body: Mapping[str, Any]) -> bytes:
    """Serialize a BaseCommand whose ``field`` has the content ``body``; None omits a field."""
    kind: Any = _TYPE_OF_FIELD[field]
    values: dict[str, Any] = {field: body}
    return pb.BaseCommand(type=kind, **values).SerializeToString()


def command_frame(field: str, **body: Any) -> bytes:
    """Build the frame of ``command_bytes``."""
    return frames.frame(command_bytes(field, body))


def message_id(
    position: Position, *, partition: int | None = None, batch_index: int | None = None
) -> dict[str, Any]:
    """Return MessageIdData of a position; -1 is sent as 2**64 - 1."""
    return {
        "ledgerId": position.ledger_id & UINT64_MAX,
        "entryId": position.entry_id & UINT64_MAX,
        "partition": partition,
        "batch_index": batch_index,
    }


def with_body(kind: int, body: Message) -> bytes:
    """Build the frame of a command whose body exists already; fields that are not known here are kept."""
    command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    getattr(command, FIELD_OF_TYPE[kind]).CopyFrom(body)
    return frames.frame(command.SerializeToString())


def key_values(properties: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the KeyValue list of a mapping, in its order."""
    return [{"key": key, "value": value} for key, value in properties.items()]


# Connection


def connected(
    *,
    server_version: str,
    protocol_version: int,
    max_message_size: int | None = frames.MESSAGE_BYTES_MAX,
    feature_flags: Mapping[str, bool] | None = None,
) -> bytes:
    """Build the answer to CONNECT. ``protocol_version`` is the lower of both sides' versions."""
    return command_frame(
        "connected",
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_size,
        feature_flags=None if feature_flags is None else dict(feature_flags),
    )


AUTH_REFRESH = b"PulsarAuthRefresh"
"""Challenge data with which a broker requests new credentials on an open connection."""


def auth_challenge(
    auth_method_name: str,
    auth_data: bytes,
    protocol_version: int,
    server_version: str | None = None,
) -> bytes:
    """Build a request for (further) credentials."""
    return command_frame(
        "authChallenge",
        server_version=server_version,
        challenge={"auth_method_name": auth_method_name, "auth_data": auth_data},
        protocol_version=protocol_version,
    )


def ping() -> bytes:
    return _PING


def pong() -> bytes:
    return _PONG


_PING = command_frame("ping")
_PONG = command_frame("pong")


def error(request_id: int, code: int, message: str) -> bytes:
    """Build ERROR, only for requests whose own answer has no error field."""
    return command_frame("error", request_id=request_id, error=code, message=message)


def success(request_id: int) -> bytes:
    return command_frame("success", request_id=request_id)


# Lookup


def partitioned_metadata(request_id: int, partitions: int) -> bytes:
    """Build the answer with the number of partitions; 0 when the topic is not partitioned."""
    return command_frame(
        "partitionMetadataResponse", partitions=partitions, request_id=request_id, response=0
    )


def partitioned_metadata_failed(request_id: int, code: int, message: str) -> bytes:
    return command_frame(
        "partitionMetadataResponse",
        request_id=request_id,
        response=1,
        error=code,
        message=message,
    )


def lookup_connect(
    request_id: int,
    broker_url: str | None,
    broker_url_tls: str | None = None,
    *,
    proxy_through_service_url: bool = False,
) -> bytes:
    """Build the answer that the topic is served at these URLs, with the schemes ``pulsar://`` and ``pulsar+ssl://``."""
    return command_frame(
        "lookupTopicResponse",
        brokerServiceUrl=broker_url,
        brokerServiceUrlTls=broker_url_tls,
        response=1,
        request_id=request_id,
        authoritative=True,
        proxy_through_service_url=proxy_through_service_url,
    )


def lookup_redirect(
    request_id: int,
    broker_url: str | None,
    broker_url_tls: str | None = None,
    *,
    authoritative: bool,
    proxy_through_service_url: bool = False,
) -> bytes:
    """Build the answer that redirects the lookup to that broker. With ``authoritative`` that broker acquires the topic
    if it has no owner."""
    return command_frame(
        "lookupTopicResponse",
        brokerServiceUrl=broker_url,
        brokerServiceUrlTls=broker_url_tls,
        response=0,
        request_id=request_id,
        authoritative=authoritative,
        proxy_through_service_url=proxy_through_service_url,
    )


def lookup_failed(request_id: int, code: int, message: str) -> bytes:
    return command_frame(
        "lookupTopicResponse", response=2, request_id=request_id, error=code, message=message
    )


def topics_of_namespace(
    request_id: int,
    topics: Sequence[str],
    *,
    filtered: bool = False,
    topics_hash: str | None = None,
    changed: bool | None = None,
) -> bytes:
    """Build the answer with topic names. ``changed`` False: they are those of the hash that the client sent."""
    return command_frame(
        "getTopicsOfNamespaceResponse",
        request_id=request_id,
        topics=topics,
        filtered=filtered,
        topics_hash=topics_hash,
        changed=changed,
    )


def watch_topic_list_success(
    request_id: int, watcher_id: int, topics: Sequence[str], topics_hash: str
) -> bytes:
    """Build the answer to WATCH_TOPIC_LIST, without ``topics`` when they are those of the hash that the client sent."""
    return command_frame(
        "watchTopicListSuccess",
        request_id=request_id,
        watcher_id=watcher_id,
        topic=topics,
        topics_hash=topics_hash,
    )


def watch_topic_update(
    watcher_id: int, new: Sequence[str], deleted: Sequence[str], topics_hash: str
) -> bytes:
    """Build the notification of topics that were created and deleted since the last one. ``topics_hash``: of all topics
    that match now."""
    return command_frame(
        "watchTopicUpdate",
        watcher_id=watcher_id,
        new_topics=new,
        deleted_topics=deleted,
        topics_hash=topics_hash,
    )


# Producer


def producer_success(
    request_id: int,
    producer_name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    producer_ready: bool = True,
) -> bytes:
    """Build the answer to PRODUCER. ``last_sequence_id`` -1: not known. ``producer_ready`` False: a second answer with
    this request id will follow."""
    return command_frame(
        "producer_success",
        request_id=request_id,
        producer_name=producer_name,
        last_sequence_id=last_sequence_id,
        schema_version=schema_version,
        topic_epoch=topic_epoch,
        producer_ready=producer_ready,
    )


def send_receipt(
    producer_id: int, sequence_id: int, position: Position, highest_sequence_id: int | None = None
) -> bytes:
    """Build one receipt; ``kernels.build_receipts`` builds runs of them. NOWHERE for a message that was not stored."""
    return command_frame(
        "send_receipt",
        producer_id=producer_id,
        sequence_id=sequence_id,
        message_id=message_id(position),
        highest_sequence_id=highest_sequence_id,
    )


def send_error(producer_id: int, sequence_id: int, code: int, message: str) -> bytes:
    """Build SEND_ERROR. ``sequence_id``: the larger of the SEND's sequence id and highest sequence id."""
    return command_frame(
        "send_error",
        producer_id=producer_id,
        sequence_id=sequence_id,
        error=code,
        message=message,
    )


def close_producer(
    producer_id: int,
    request_id: int = NO_REQUEST,
    *,
    broker_url: str | None = None,
    broker_url_tls: str | None = None,
) -> bytes:
    """Build the broker's request to create the producer again, at ``broker_url`` when given."""
    return command_frame(
        "close_producer",
        producer_id=producer_id,
        request_id=request_id,
        assignedBrokerServiceUrl=broker_url,
        assignedBrokerServiceUrlTls=broker_url_tls,
    )


# Consumer


def message(
    consumer_id: int,
    position: Position,
    entry: bytes,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: Sequence[int] | None = None,
    consumer_epoch: int | None = None,
) -> bytes:
    """Build one MESSAGE frame; ``kernels.build_messages`` builds runs. Messages whose bits are set in ``ack_set`` are
    still due."""
    body = {
        "consumer_id": consumer_id,
        "message_id": message_id(position, partition=partition if partition >= 0 else None),
        "redelivery_count": redelivery_count or None,
        "ack_set": ack_set or None,
        "consumer_epoch": consumer_epoch,
    }
    return frames.payload_frame(command_bytes("message", body), entry)


def ack_response(
    consumer_id: int,
    request_id: int,
    *,
    code: int | None = None,
    message: str | None = None,
    txn: tuple[int, int] | None = None,
) -> bytes:
    """Build the answer to an ACK that had a request id. ``txn``: the transaction id's most and least significant
    bits."""
    return command_frame(
        "ackResponse",
        consumer_id=consumer_id,
        txnid_least_bits=txn[1] if txn else None,
        txnid_most_bits=txn[0] if txn else None,
        error=code,
        message=message,
        request_id=request_id,
    )


def active_consumer_change(consumer_id: int, is_active: bool) -> bytes:
    return command_frame("active_consumer_change", consumer_id=consumer_id, is_active=is_active)


def topic_migrated(kind: int, resource_id: int, url: str, url_tls: str) -> bytes:
    """Build TOPIC_MIGRATED, for protocol version 20 and later. ``kind``: CommandTopicMigrated.ResourceType."""
    return command_frame(
        "topicMigrated",
        resource_id=resource_id,
        resource_type=kind,
        brokerServiceUrl=url or None,
        brokerServiceUrlTls=url_tls or None,
    )


def reached_end_of_topic(consumer_id: int) -> bytes:
    """Build REACHED_END_OF_TOPIC, only for Java clients: the others close the connection on it."""
    return command_frame("reachedEndOfTopic", consumer_id=consumer_id)


def close_consumer(
    consumer_id: int,
    request_id: int = NO_REQUEST,
    *,
    broker_url: str | None = None,
    broker_url_tls: str | None = None,
) -> bytes:
    """Build the broker's request to subscribe again, at ``broker_url`` when given."""
    return command_frame(
        "close_consumer",
        consumer_id=consumer_id,
        request_id=request_id,
        assignedBrokerServiceUrl=broker_url,
        assignedBrokerServiceUrlTls=broker_url_tls,
    )


def consumer_stats(request_id: int, stats: Mapping[str, Any]) -> bytes:
    """Build the answer with a consumer's statistics. ``stats``: fields of CommandConsumerStatsResponse by name, without
    the error, whose presence means failure."""
    return command_frame("consumerStatsResponse", request_id=request_id, **stats)


def consumer_stats_failed(request_id: int, code: int, message: str) -> bytes:
    return command_frame(
        "consumerStatsResponse", request_id=request_id, error_code=code, error_message=message
    )


def last_message_id(
    request_id: int,
    last: Position,
    *,
    partition: int = -1,
    batch_index: int = -1,
    mark_delete: Position | None = None,
) -> bytes:
    """Build the answer with the last message id. ``last`` has entry -1 on an empty topic; ``batch_index`` is the last
    entry's message count - 1, -1 if it is a single message."""
    return command_frame(
        "getLastMessageIdResponse",
        last_message_id=message_id(last, partition=partition, batch_index=batch_index),
        request_id=request_id,
        consumer_mark_delete_position=None if mark_delete is None else message_id(mark_delete),
    )


# Schema


def schema(request_id: int, schema: pb.Schema, schema_version: bytes) -> bytes:
    """Build the answer to GET_SCHEMA."""
    return command_frame(
        "getSchemaResponse", request_id=request_id, schema=schema, schema_version=schema_version
    )


def schema_failed(request_id: int, code: int, message: str) -> bytes:
    """Build the refusal of GET_SCHEMA; TopicNotFound means that there is no schema."""
    return command_frame(
        "getSchemaResponse", request_id=request_id, error_code=code, error_message=message
    )


def schema_version(request_id: int, version: bytes) -> bytes:
    """Build the answer to GET_OR_CREATE_SCHEMA."""
    return command_frame("getOrCreateSchemaResponse", request_id=request_id, schema_version=version)


def schema_version_failed(request_id: int, code: int, message: str) -> bytes:
    return command_frame(
        "getOrCreateSchemaResponse",
        request_id=request_id,
        error_code=code,
        error_message=message,
    )


# Transactions


def transaction_answer(
    field: str,
    request_id: int,
    txn: tuple[int, int],
    *,
    code: int | None = None,
    message: str | None = None,
) -> bytes:
    """Build the answer ``field`` to a request about a transaction. ``txn``: most and least significant bits."""
    return command_frame(
        field,
        request_id=request_id,
        txnid_least_bits=txn[1] & UINT64_MAX,
        txnid_most_bits=txn[0],
        error=code,
        message=message,
    )


def coordinator_connected(
    request_id: int, *, code: int | None = None, message: str | None = None
) -> bytes:
    """Build the answer to TC_CLIENT_CONNECT_REQUEST."""
    return command_frame(
        "tcClientConnectResponse", request_id=request_id, error=code, message=message
    )
