"""A client of hand-made frames on a blocking socket, for tests of what the official client would never send."""

import socket
from typing import Any

from crc32c import crc32c
from google.protobuf.json_format import MessageToDict

from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes, command_frame


def entry_of(value: bytes, **metadata: Any) -> bytes:
    """What stands behind a SEND's command: checksum, metadata, payload."""
    head = pb.MessageMetadata(
        producer_name="raw", sequence_id=0, publish_time=1, **metadata
    ).SerializeToString()
    body = len(head).to_bytes(4, "big") + head + value
    return b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body


def send_of(producer_id: int, sequence_id: int, value: bytes, **fields: Any) -> bytes:
    """A SEND frame of one plain message."""
    body = {"producer_id": producer_id, "sequence_id": sequence_id, **fields}
    return frames.payload_frame(command_bytes("send", body), entry_of(value))


class Wire:
    """One client connection. ``answers_pings``: PINGs of the broker are answered and not shown."""

    def __init__(self, port: int, *, answers_pings: bool = False) -> None:
        self._answers_pings = answers_pings
        self._socket = socket.create_connection(("127.0.0.1", port), 5)
        self._socket.settimeout(5)
        self._kept = b""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frame(self) -> dict[str, Any] | None:
        """The next command from the broker; None when it closed the connection."""
        while (stop := frames.whole_frame(self._kept, 0, len(self._kept), 1 << 24)) < 0:
            try:
                more = self._socket.recv(1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                return None
            self._kept += more
        start, end = frames.command_span(self._kept, 0, stop)
        command = commands.parse(self._kept, start, end)
        self._kept = self._kept[stop:]
        if self._answers_pings and command.type == pb.BaseCommand.PING:
            self.say("pong")
            return self.frame()
        return MessageToDict(command, preserving_proto_field_name=True)

    def say(self, field: str, **body: Any) -> None:
        """Send a command."""
        self.send(command_frame(field, **body))

    def ask(self, field: str, **body: Any) -> dict[str, Any]:
        """Send a command, return the next one that comes."""
        self.say(field, **body)
        got = self.frame()
        assert got is not None, f"closed instead of an answer to {field}"
        return got

    def open(self) -> "Wire":
        """Do the handshake."""
        assert self.ask("connect", client_version="raw", protocol_version=20)["type"] == "CONNECTED"
        return self

    def silent(self, wait_s: float) -> bool:
        """Whether nothing comes for ``wait_s``."""
        self._socket.settimeout(wait_s)
        try:
            got = self.frame()
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(5)
        return got is None

    def close(self) -> None:
        self._socket.close()
