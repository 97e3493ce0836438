"""The broker-side peer: one event per run, the same events however the bytes are cut, an end at the first violation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.wire import client_commands, commands, frames
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Acks, Command, CorruptSend, Event, Sends, Violation
from engine.wire.peer import Peer
from engine.wire.states import IllegalCommandError, State

CONNECT = client_commands.connect("test")


def entry(value: bytes = b"v") -> bytes:
    return pack_entry([Message(value)], producer_name="p", publish_ms=1)


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
    """Events with runs taken apart, so that runs cut by chance compare equal."""
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
        + client_commands.send(300, 3, entry(), num_messages=4, highest_sequence_id=6)
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
    (event,) = connected_peer().receive(client_commands.send(3, 8, entry(b"x"), txn=(1, 2)))
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
    assert peer.state is State.CONNECTED


def test_what_follows_connect_at_once_waits_for_its_answer() -> None:
    peer = Peer()
    stream = CONNECT + client_commands.lookup("t", 1) + client_commands.send(1, 1, entry())
    pos, events = peer.take(stream, 0, len(stream))
    assert (pos, len(events)) == (len(CONNECT), 1)
    peer.sent_connected()
    pos, events = peer.take(stream, pos, len(stream))
    assert pos == len(stream)
    assert [type(event) for event in events] == [Command, Sends]
