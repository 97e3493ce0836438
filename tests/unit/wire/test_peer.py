"""Peers of both sides: one event per run, the same events for every cut of the bytes, an end at the first violation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.wire import client_commands, commands, frames
from engine.wire.batches import Message, pack_entry
from engine.wire.events import (
    Acks,
    ClientEvent,
    Command,
    CorruptSend,
    Delivered,
    Event,
    Messages,
    Receipt,
    Receipts,
    Sends,
    Violation,
)
from engine.wire.kernels import build_receipts, build_sends
from engine.wire.peer import ClientPeer, Peer
from engine.wire.states import IllegalCommandError, State

CONNECT = client_commands.connect("test")


def entry(value: bytes = b"v", count: int | None = None) -> bytes:
    extra = {} if count is None else {"num_messages_in_batch": count}
    return pack_entry([Message(value)], producer_name="p", publish_ms=1, extra=extra)


def connected_peer() -> Peer:
    peer = Peer()
    peer.receive(CONNECT)
    peer.sent_connected()
    return peer


def test_sends_and_acks_come_as_one_event_per_run() -> None:
    stream = b"".join(client_commands.send(3, i, entry()) for i in range(100))
    stream += b"".join(client_commands.ack(4, [Position(1, i)]) for i in range(50))
    stream += client_commands.flow(4, 10) + client_commands.send(5, 0, entry())
    events = connected_peer().receive(stream)
    assert [type(event) for event in events] == [Sends, Acks, Command, Sends]
    assert isinstance(events[0], Sends)
    assert events[0].run.count == 100
    assert isinstance(events[1], Acks)
    assert events[1].positions == [Position(1, i) for i in range(50)]


def flattened(events: list[Event]) -> list[object]:
    """Return the events with runs taken apart, so that runs cut by chance compare equal."""
    out: list[object] = []
    for event in events:
        match event:
            case Sends(producer_id=producer_id, run=run):
                out += [(producer_id, run.heads[i], run.entry(i)) for i in range(run.count)]
            case Acks(consumer_id=consumer_id, positions=positions):
                out += [(consumer_id, position) for position in positions]
            case Command(command=command):
                out.append(command)
            case CorruptSend() | Violation():
                out.append(type(event))
    return out


@given(st.lists(st.integers(1, 60), max_size=30))
def test_events_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    corrupt = bytearray(client_commands.send(3, 2, entry(b"corrupt")))
    corrupt[-1] ^= 1
    stream = (
        client_commands.send(3, 0, entry())
        + client_commands.send(3, 1, entry(), is_chunk=True)
        + bytes(corrupt)
        + client_commands.send(300, 3, entry(count=4), num_messages=4, highest_sequence_id=6)
        + client_commands.ack(4, [Position(1, 2)])
        + client_commands.ack(4, [Position(1, 2)], request_id=1)
        + client_commands.get_last_message_id(4, 9)
        + commands.send_receipt(1, 1, Position(1, 1))
        + client_commands.flow(4, 1)
    )
    whole = flattened(connected_peer().receive(stream))
    assert whole[-1] is Violation
    peer, events, pos = connected_peer(), [], 0
    for size in [*cuts, len(stream)]:
        events += peer.receive(stream[pos : pos + size])
        pos += size
    assert flattened(events) == whole


def test_the_slow_path_gives_the_run_and_the_command() -> None:
    (event,) = connected_peer().receive(
        client_commands.send(3, 8, entry(b"x"), txn=(1, 2), is_chunk=True)
    )
    assert isinstance(event, Sends)
    assert event.command is not None
    assert event.command.txnid_most_bits == 1
    assert event.run.entry(0) == entry(b"x")
    assert (event.run.first_sequence, event.run.last_sequence) == (8, 8)


def test_a_corrupt_send_is_reported_with_the_sequence_its_error_needs() -> None:
    bad = bytearray(client_commands.send(3, 8, entry(), highest_sequence_id=11, num_messages=4))
    bad[-1] ^= 1
    after = client_commands.send(3, 12, entry())
    events = connected_peer().receive(bytes(bad) + after)
    assert events[0] == CorruptSend(3, 11)
    assert isinstance(events[1], Sends)


def test_a_violation_comes_after_what_preceded_it_and_nothing_follows() -> None:
    peer = connected_peer()
    good = client_commands.flow(1, 1)
    events = peer.receive(good + CONNECT + good)
    assert [type(event) for event in events] == [Command, Violation]
    assert isinstance(peer.failed, IllegalCommandError)
    assert peer.receive(good) == []


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"\x00\x00\x00\x00", "no room for a command"),
        (b"\x7f\xff\xff\xff", "above the limit"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x09\x08", "command of 9 bytes"),
        (frames.frame(b"\xff"), "does not parse"),
        (frames.frame(b"\x08\x7f"), "unknown type"),
        (frames.frame(b"\x08\x12"), "lacks its body"),
        (frames.frame(b"\x08\x0b\x5a\x02\x08\x01"), "FLOW lacks a required field"),
        (
            frames.frame(commands.command_bytes("send", {"producer_id": 1, "sequence_id": 1})),
            "SEND with 0",
        ),
    ],
)
def test_malformed_frames_end_the_connection_with_a_reason(frame: bytes, text: str) -> None:
    (event,) = connected_peer().receive(frame)
    assert isinstance(event, Violation)
    assert text in str(event.error)


@given(st.binary(max_size=200))
def test_no_bytes_make_a_peer_raise(junk: bytes) -> None:
    for peer in (Peer(), connected_peer()):
        events = peer.receive(junk)
        assert all(not isinstance(event, Violation) for event in events[:-1])


def test_sends_wait_for_connected() -> None:
    peer = Peer()
    peer.receive(CONNECT)
    assert peer.state is State.CONNECTING
    (event,) = peer.receive(client_commands.send(1, 1, entry()))
    assert isinstance(event, Violation)


def test_a_challenge_is_answered_before_connected() -> None:
    peer = Peer()
    peer.receive(CONNECT)
    peer.sent_challenge()
    (event,) = peer.receive(client_commands.auth_response("token", b"t"))
    assert isinstance(event, Command)
    assert peer.state is State.CONNECTING
    peer.sent_connected()
    peer.sent_challenge()
    assert peer.state is State.REFRESHING
    commands_meanwhile = peer.receive(client_commands.send(3, 0, entry()) * 3 + commands.ping())
    assert [type(event) for event in commands_meanwhile] == [Sends, Command]
    peer.receive(client_commands.auth_response("token", b"t"))
    assert peer.state is State.CONNECTED


def test_commands_sent_with_connect_wait_for_its_answer() -> None:
    peer = Peer()
    stream = CONNECT + client_commands.lookup("t", 1) + client_commands.send(1, 1, entry())
    pos, events = peer.take(stream, 0, len(stream))
    assert (pos, len(events)) == (len(CONNECT), 1)
    peer.sent_connected()
    pos, events = peer.take(stream, pos, len(stream))
    assert pos == len(stream)
    assert [type(event) for event in events] == [Command, Sends]


# The client's side

CONNECTED = commands.connected(server_version="test", protocol_version=21)


def connected_client() -> ClientPeer:
    peer = ClientPeer()
    peer.sent_connect()
    peer.receive(CONNECTED)
    return peer


def taken_apart(events: list[ClientEvent]) -> list[object]:
    """Return the events with runs taken apart."""
    out: list[object] = []
    for event in events:
        match event:
            case Receipts() | Messages():
                out += event.read()
            case Command(command=command):
                out.append(command)
            case Violation():
                out.append(type(event))
    return out


@given(st.lists(st.integers(1, 60), max_size=30))
def test_a_clients_events_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    receipts = build_receipts(5, 9, [b"\x08\x03\x10" + bytes((i,)) for i in range(20)], 0, 20)
    batch = pack_entry([Message(b"a"), Message(b"b")], producer_name="p", publish_ms=1)
    stream = (
        CONNECTED
        + receipts
        + commands.message(1, Position(2, 3), entry(), redelivery_count=4)
        + commands.message(2, Position(2, 4), batch, ack_set=[2])
        + commands.send_receipt(3, 20, commands.NOWHERE)
        + commands.success(7)
    )
    peer, events, pos = ClientPeer(), [], 0
    peer.sent_connect()
    for size in cuts:
        events += peer.receive(stream[pos : pos + size])
        pos += size
    events += peer.receive(stream[pos:])
    received = taken_apart(events)
    assert received[1:21] == [Receipt(3, i, Position(5, 9 + i)) for i in range(20)]
    assert received[21:24] == [
        Delivered(1, Position(2, 3), 4, [], entry()),
        Delivered(2, Position(2, 4), 0, [2], batch),
        Receipt(3, 20, commands.NOWHERE),
    ]
    assert len(received) == 25


def test_receipts_and_messages_come_as_one_event_per_run() -> None:
    receipts = build_receipts(5, 0, [b"\x08\x03\x10\x01"] * 100, 0, 100)
    messages = commands.message(1, Position(2, 3), entry()) * 50
    events = connected_client().receive(receipts + messages + commands.ping() + receipts)
    assert [type(event) for event in events] == [Receipts, Messages, Command, Receipts]


@given(st.binary(max_size=200))
def test_no_bytes_make_a_client_raise(junk: bytes) -> None:
    for peer in (ClientPeer(), connected_client()):
        events = peer.receive(junk)
        assert all(not isinstance(event, Violation) for event in events[:-1])


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (client_commands.flow(1, 1), "FLOW in state connected"),
        (CONNECTED, "CONNECTED in state connected"),
        (b"\0\0\0\x0b\0\0\0\x0b\x08\x07\x3a\0\0\0\0", "command of 11 bytes"),
        (b"\x7f\xff\xff\xff\0\0\0\x07\x08\x07\x3a", "above the limit"),
    ],
)
def test_a_command_that_brokers_must_not_send_is_a_violation(frame: bytes, text: str) -> None:
    (event,) = connected_client().receive(frame)
    assert isinstance(event, Violation)
    assert text in str(event.error)


def test_a_malformed_frame_of_a_run_raises_when_the_run_is_read() -> None:
    receipt = bytearray(build_receipts(5, 9, [b"\x08\x03\x10\x01"], 0, 1))
    receipt[-1] = 0xFF
    (event,) = connected_client().receive(bytes(receipt))
    assert isinstance(event, Receipts)
    with pytest.raises(commands.MalformedCommandError):
        event.read()


STEPS = {
    "connect": (client_commands.connect("test"), None),
    "answer": (client_commands.auth_response("token", b"t"), None),
    "connected": (None, CONNECTED),
    "challenge": (None, commands.auth_challenge("token", b"?", 21)),
    "ask": (client_commands.flow(1, 1), None),
    "say": (None, commands.success(1)),
}


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=8))
def test_both_sides_agree_on_the_state_of_a_connection(steps: list[str]) -> None:
    """Send what the state of one side allows: the other side accepts it, and both are then in the same state."""
    broker, client = Peer(), ClientPeer()
    for step in ["connect", *steps]:
        asked, answered = STEPS[step]
        try:
            match step:
                case "connect":
                    client.sent_connect()
                case "answer":
                    client.sent_auth_response()
                case "connected":
                    broker.sent_connected()
                case "challenge":
                    broker.sent_challenge()
                case _ if client.state is not State.CONNECTED:
                    continue
        except KeyError:
            continue  # not its turn
        events = broker.receive(asked) if asked else client.receive(answered or b"")
        assert [type(event) for event in events] == [Command]
        assert broker.state is client.state


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.integers(1, 1 << 20)), min_size=1))
def test_a_broker_receives_a_clients_run_as_one_run(sends: list[tuple[int, int]]) -> None:
    sequences, counts = [sequence for sequence, _ in sends], [count for _, count in sends]
    entries = [entry(b"%d" % i, count) for i, count in enumerate(counts)]
    (event,) = connected_peer().receive(b"".join(build_sends(300, sequences, entries, counts)))
    assert isinstance(event, Sends)
    run = event.run
    assert [run.entry(i) for i in range(run.count)] == entries
    assert [
        client_commands.send(300, s, e, num_messages=c if c > 1 else None)
        for s, e, c in zip(sequences, entries, counts, strict=True)
    ] == [
        b"".join(build_sends(300, [s], [e], [c]))
        for s, e, c in zip(sequences, entries, counts, strict=True)
    ]
    assert (run.counts or [1] * run.count) == counts
    assert (run.first_sequence, run.last_sequence) == (sequences[0], sequences[-1])
