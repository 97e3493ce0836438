"""Frames recorded between real clients and Apache Pulsar 4.0.8: ours accepts them and builds the same bytes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.wire import bookie_commands, commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.events import Acks, Command, CorruptSend, Event, Sends, Violation
from engine.wire.kernels import build_messages, build_receipts
from engine.wire.peer import Peer
from engine.wire.states import CommandType, State

CAPTURES = Path(__file__).parent
PULSAR = sorted(path.stem for path in CAPTURES.glob("*.jsonl") if path.stem != "bookkeeper")
VIOLATIONS = {
    "raw_first_command_not_connect": "LOOKUP in state start",
    "raw_frame_length_zero_and_huge": "no room for a command",
    "raw_missing_required_field": "lacks a required field",
    "raw_missing_subcommand": "lacks its body",
    "raw_too_large": "above the limit",
    "raw_unknown_command_type": "unknown type",
}


def recorded(name: str) -> list[dict[str, Any]]:
    lines = (CAPTURES / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def client_events(name: str) -> Iterator[tuple[dict[str, Any], Event]]:
    """Yield every recorded client line with each event that the peer of its connection decodes from it."""
    peers: dict[int, Peer] = {}
    for line in recorded(name):
        if line["dir"] != "C>B":
            continue
        peer = peers.setdefault(line["conn"], Peer())
        for event in peer.receive(bytes.fromhex(line["hex"])):
            if isinstance(event, Command) and event.command.HasField("connect"):
                peer.sent_connected()
            yield line, event


@pytest.mark.parametrize("name", PULSAR)
def test_a_peer_accepts_every_client_frame_that_apache_accepted(name: str) -> None:
    violations = []
    for line, event in client_events(name):
        match event:
            case Violation(error=error):
                violations.append(str(error))
            case Sends() | CorruptSend():
                assert line["type"] == "SEND"
            case Acks():
                assert line["type"] == "ACK"
            case Command(command=command):
                assert CommandType(command.type).name == line["type"]
    assert bool(violations) == (name in VIOLATIONS)
    assert all(part in " / ".join(violations) for part in [VIOLATIONS.get(name, "")])


def test_fast_and_slow_path_agree_on_every_recorded_send() -> None:
    seen = 0
    for name in PULSAR:
        for line, event in client_events(name):
            if isinstance(event, Sends):
                seen += 1
                raw = bytes.fromhex(line["hex"])
                start, stop = frames.command_span(raw, 0, len(raw))
                send = commands.parse(raw, start, stop).send
                assert event.run.entry(0) == raw[stop:]
                assert event.run.first_sequence == send.sequence_id
                assert event.run.last_sequence == max(send.sequence_id, send.highest_sequence_id)
                assert event.run.messages == send.num_messages
                receipt = build_receipts(7, 300, event.run.heads, 0, 1)
                start, stop = frames.command_span(receipt, 0, len(receipt))
                parsed = commands.parse(receipt, start, stop).send_receipt
                assert parsed.sequence_id == send.sequence_id
                assert parsed.highest_sequence_id == send.highest_sequence_id
                assert (parsed.message_id.ledgerId, parsed.message_id.entryId) == (7, 300)
    assert seen > 60


def position(message_id: pb.MessageIdData) -> Position:
    return Position(message_id.ledgerId, message_id.entryId)


def optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def rebuild_connected(c: pb.CommandConnected) -> bytes:
    flags = {field.name: value for field, value in c.feature_flags.ListFields()}
    return commands.connected(
        server_version=c.server_version,
        protocol_version=c.protocol_version,
        max_message_size=c.max_message_size,
        feature_flags=flags,
    )


def rebuild_metadata(c: pb.CommandPartitionedTopicMetadataResponse) -> bytes:
    if c.HasField("error"):
        return commands.partitioned_metadata_failed(c.request_id, c.error, c.message)
    return commands.partitioned_metadata(c.request_id, c.partitions)


def rebuild_lookup(c: pb.CommandLookupTopicResponse) -> bytes:
    if c.response == 2:
        return commands.lookup_failed(c.request_id, c.error, c.message)
    build = commands.lookup_connect
    return build(
        c.request_id,
        optional(c, "brokerServiceUrl"),
        optional(c, "brokerServiceUrlTls"),
        proxy_through_service_url=c.proxy_through_service_url,
    )


def rebuild_producer(c: pb.CommandProducerSuccess) -> bytes:
    return commands.producer_success(
        c.request_id,
        c.producer_name,
        last_sequence_id=c.last_sequence_id,
        schema_version=c.schema_version,
        topic_epoch=optional(c, "topic_epoch"),
        producer_ready=c.producer_ready,
    )


def rebuild_ack_response(c: pb.CommandAckResponse) -> bytes:
    txn = (c.txnid_most_bits, c.txnid_least_bits) if c.HasField("txnid_most_bits") else None
    return commands.ack_response(c.consumer_id, c.request_id, txn=txn)


REBUILD: dict[str, Callable[[Any], bytes]] = {
    "connected": rebuild_connected,
    "partitionMetadataResponse": rebuild_metadata,
    "lookupTopicResponse": rebuild_lookup,
    "producer_success": rebuild_producer,
    "ackResponse": rebuild_ack_response,
    "success": lambda c: commands.success(c.request_id),
    "error": lambda c: commands.error(c.request_id, c.error, c.message),
    "send_error": lambda c: commands.send_error(c.producer_id, c.sequence_id, c.error, c.message),
    "ping": lambda c: commands.ping(),
    "pong": lambda c: commands.pong(),
    "active_consumer_change": lambda c: commands.active_consumer_change(c.consumer_id, c.is_active),
    "reachedEndOfTopic": lambda c: commands.reached_end_of_topic(c.consumer_id),
    "getSchemaResponse": lambda c: (
        commands.schema_failed(c.request_id, c.error_code, c.error_message)
        if c.HasField("error_code")
        else commands.schema(c.request_id, c.schema, c.schema_version)
    ),
    "authChallenge": lambda c: commands.auth_challenge(
        c.challenge.auth_method_name, c.challenge.auth_data, c.protocol_version
    ),
    "close_producer": lambda c: commands.close_producer(c.producer_id, c.request_id),
    "close_consumer": lambda c: commands.close_consumer(c.consumer_id, c.request_id),
    "getTopicsOfNamespaceResponse": lambda c: commands.topics_of_namespace(
        c.request_id,
        c.topics,
        filtered=c.filtered,
        topics_hash=optional(c, "topics_hash"),
        changed=optional(c, "changed"),
    ),
}
MAY_DIFFER = {"close_producer", "close_consumer"}
"""Commands to which Apache adds the address of the next owner."""


def test_our_builders_make_the_bytes_apache_sent() -> None:
    made: dict[str, int] = {}
    for name in PULSAR:
        for line in recorded(name):
            raw = bytes.fromhex(line["hex"])
            if line["dir"] != "B>C" or len(raw) != 4 + int.from_bytes(raw[:4], "big"):
                continue
            start, stop = frames.command_span(raw, 0, len(raw))
            command = commands.parse(raw, start, stop)
            field = commands.FIELD_OF_TYPE[command.type]
            rebuild = REBUILD.get(field)
            if rebuild is None:
                continue
            ours = rebuild(getattr(command, field))
            if field in MAY_DIFFER and getattr(command, field).assignedBrokerServiceUrl:
                continue
            assert ours.hex() == raw.hex(), (name, field)
            made[field] = made.get(field, 0) + 1
    assert set(made) >= set(REBUILD) - MAY_DIFFER, set(REBUILD) - set(made)


def test_message_frames_have_the_fields_and_bytes_of_apaches() -> None:
    seen = 0
    for name in PULSAR:
        for line in recorded(name):
            raw = bytes.fromhex(line["hex"])
            if line["dir"] != "B>C" or line["type"] != "MESSAGE":
                continue
            start, stop = frames.command_span(raw, 0, len(raw))
            message = commands.parse(raw, start, stop).message
            place = message.message_id
            run = Slice(raw, [stop, len(raw)], len(raw) - stop, None, place.ledgerId, place.entryId)
            counts = [message.redelivery_count]
            epoch = optional(message, "consumer_epoch")
            if message.ack_set:
                ours = commands.message(
                    message.consumer_id,
                    position(place),
                    run.entry(0),
                    partition=place.partition,
                    redelivery_count=message.redelivery_count,
                    ack_set=list(message.ack_set),
                    consumer_epoch=epoch,
                )
            else:
                made = build_messages(
                    message.consumer_id, run, range(1), counts, epoch, place.partition, bare=False
                )
                ours = b"".join(made)
            start, ours_stop = frames.command_span(ours, 0, len(ours))
            again = commands.parse(ours, start, ours_stop).message
            # Apache writes the default partition -1 out; absent means the same.
            again.message_id.partition = place.partition
            if message.HasField("redelivery_count"):
                again.redelivery_count = message.redelivery_count
            assert again == message
            assert ours[ours_stop:] == raw[stop:]
            seen += 1
    assert seen > 50


def test_bookkeeper_frames_are_parsed_and_built_to_the_same_bytes() -> None:
    seen: dict[str, int] = {}
    for line in recorded("bookkeeper"):
        raw = bytes.fromhex(line["hex"])
        if line["proto"] != "V2" or len(raw) != 4 + int.from_bytes(raw[:4], "big"):
            continue
        if line["dir"] == "B>C" or raw[4] != 2:
            continue
        try:
            request = bookie_commands.parse_request(raw, 0, len(raw))
        except bookie_commands.BookieFrameError:
            # Frames made by hand, on which Apache closed the connection.
            assert line["type"] not in ("ADDENTRY", "AUTH") or len(raw) < 60
            continue
        match request:
            case bookie_commands.AddRequest():
                again = bookie_commands.add_request(
                    request.ledger_id,
                    request.entry_id,
                    request.master_key,
                    request.entry,
                    request.flags,
                )
            case bookie_commands.ReadRequest():
                again = bookie_commands.read_request(
                    request.ledger_id,
                    request.entry_id,
                    flags=request.flags,
                    master_key=request.master_key,
                )
            case bookie_commands.BatchReadRequest():
                again = bookie_commands.batch_read_request(
                    request.ledger_id,
                    request.first_entry,
                    request.request_id,
                    request.count_max,
                    request.bytes_max,
                )
            case bookie_commands.AuthRequest():
                again = bookie_commands.auth_message(request.plugin, request.payload)
        assert again.hex() == raw.hex()
        seen[line["type"]] = seen.get(line["type"], 0) + 1
    assert seen.get("ADDENTRY", 0) > 5
    assert seen.get("READENTRY", 0) > 3


def test_every_peer_ends_a_recorded_conversation_connected() -> None:
    peer = Peer()
    for line in recorded("producer_single"):
        if line["dir"] == "C>B" and line["conn"] == 1:
            for event in peer.receive(bytes.fromhex(line["hex"])):
                if isinstance(event, Command) and event.command.HasField("connect"):
                    peer.sent_connected()
    assert peer.state is State.CONNECTED
