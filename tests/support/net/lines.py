"""A connection without a transport, which records what is sent on it and how it ends."""

from engine.net.transport import Connection
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb


class Line(Connection):
    """A connection whose ``said`` returns the commands sent since its last call."""

    def __init__(self) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self._sent = bytearray()
        self.ends: list[str] = []

    def send(self, data: bytes) -> None:
        if not self.closing:
            self._sent += data

    def said(self) -> list[pb.BaseCommand]:
        data, pos, sent = bytes(self._sent), 0, []
        self._sent.clear()
        while pos < len(data):
            stop = frames.frame_end(data, pos, len(data), 1 << 24)
            sent.append(commands.parse(data, *frames.command_span(data, pos, stop)))
            pos = stop
        return sent

    def kinds(self) -> list[str]:
        """Return the names of the commands that ``said`` returns."""
        return [commands.command_name(command.type) for command in self.said()]

    def close(self, error: Exception | None = None) -> None:
        self._end("closed", error)

    def abort(self, error: Exception | None = None) -> None:
        self._end("aborted", error)

    def _end(self, how: str, error: Exception | None) -> None:
        self.closing = True
        self.ends.append(f"{how}: {error}")
