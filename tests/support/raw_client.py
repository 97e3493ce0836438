"""A client on a blocking socket that sends whatever a test wants, for what the official clients would never send."""

import socket
from collections import deque
from typing import Any

from google.protobuf.json_format import MessageToDict

from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.commands import command_bytes, command_frame
from engine.wire.events import Command, Violation
from engine.wire.peer import ClientPeer

FRAME_MAX = 1 << 24


def entry_of(value: bytes, **metadata: Any) -> bytes:
    """Return what follows the command of a SEND: checksum, metadata, payload."""
    return pack_entry([Message(value)], producer_name="raw", publish_ms=1, extra=metadata)


def send_of(producer_id: int, sequence_id: int, value: bytes, **fields: Any) -> bytes:
    """Return a SEND frame of one plain message, with any fields."""
    body = {"producer_id": producer_id, "sequence_id": sequence_id, **fields}
    return frames.payload_frame(command_bytes("send", body), entry_of(value))


class Wire:
    """One client connection. ``answers_pings``: PINGs of the broker are answered and not shown."""

    def __init__(self, port: int, *, answers_pings: bool = False) -> None:
        self._answers_pings = answers_pings
        self._socket = socket.create_connection(("127.0.0.1", port), 5)
        self._peer = ClientPeer(FRAME_MAX)
        self._peer.sent_connect()  # it parses only what is received; the test decides what is sent
        self._heard: deque[pb.BaseCommand] = deque()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frame(self) -> dict[str, Any] | None:
        """Return the next command from the broker; None when it closed the connection."""
        while not self._heard:
            try:
                more = self._socket.recv(1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            self._take(more)
        command = self._heard.popleft()
        if self._answers_pings and command.type == pb.BaseCommand.PING:
            self.say("pong")
            return self.frame()
        return MessageToDict(command, preserving_proto_field_name=True)

    def _take(self, data: bytes) -> None:
        for event in self._peer.receive(data):
            match event:
                case Violation():
                    raise event.error
                case Command():
                    self._heard.append(event.command)
                case _:
                    self._heard.extend(command for command, _, _ in event.parsed())

    def say(self, field: str, **body: Any) -> None:
        """Send a command."""
        self.send(command_frame(field, **body))

    def ask(self, field: str, **body: Any) -> dict[str, Any]:
        """Send a command and return the next one that arrives."""
        self.say(field, **body)
        got = self.frame()
        assert got is not None, f"closed instead of an answer to {field}"
        return got

    def open(self) -> "Wire":
        """Do the handshake."""
        assert self.ask("connect", client_version="raw", protocol_version=20)["type"] == "CONNECTED"
        return self

    def silent(self, wait_s: float) -> bool:
        """Return whether nothing arrives for ``wait_s`` seconds."""
        self.patience(wait_s)
        try:
            got = self.frame()
        except TimeoutError:
            return True
        finally:
            self.patience(5)
        return got is None

    def patience(self, wait_s: float) -> None:
        """Let ``frame`` wait for ``wait_s`` seconds from now on."""
        self._socket.settimeout(wait_s)

    def close(self) -> None:
        self._socket.close()
