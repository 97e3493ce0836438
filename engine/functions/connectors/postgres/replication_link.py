"""The connection on which PostgreSQL sends its changes: the streaming replication protocol over psycopg's libpq.

psycopg has no interface for it, but its connection has libpq's calls for COPY in both directions, which are all that
it takes. In a COPY the server sends ``w`` (LSN, LSN of the end, time, a message of the plugin) and ``k`` (LSN, time,
whether an answer is due); the client sends ``r`` (three LSNs, time, whether an answer is wanted).
"""

import asyncio
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from engine.base.clock import Clock
from engine.functions.connectors.postgres.pgoutput import EPOCH_MS, lsn_text
from engine.functions.connectors.postgres.postgres_link import SECOND_LINE, connect, refusal
from engine.functions.connectors.spi import ConnectorError

STATUS_S = 10.0
"""Seconds between reports of the position, PostgreSQL's default of its own receivers; the server ends a connection
without any after ``wal_sender_timeout``, 60 s."""
_DATA: Final = Struct(">cQQq")
_KEEPALIVE: Final = Struct(">cQqB")
_STATUS: Final = Struct(">cQQQqB")


class ReplicationLink:
    """A replication connection. ``stream`` begins it, ``receive`` returns messages, ``confirm`` reports a position.

    ``sent_lsn``: how far the server has read its log for this connection, also where nothing in it is for us.
    """

    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._clock = clock
        self._confirmed = 0
        self._beat: asyncio.TimerHandle | None = None
        self.sent_lsn = 0

    @classmethod
    async def open(cls, settings: Mapping[str, Any], clock: Clock) -> "ReplicationLink":
        """Connect. Raises ConnectorError."""
        return cls(await connect(settings, replication="database"), clock)

    async def command(self, text: str) -> dict[str, Any]:
        """Run a command of the replication protocol and return its row by column, or nothing. Raises ConnectorError."""
        import psycopg
        from psycopg.rows import dict_row

        try:
            cursor = self._connection.cursor(row_factory=dict_row)
            await cursor.execute(text)
            if cursor.description is None:
                return {}
            row: dict[str, Any] = await cursor.fetchone() or {}
        except psycopg.Error as error:
            raise refusal("slot", error) from error
        return row

    async def stream(self, slot: str, publication: str, from_lsn: int) -> None:
        """Have the server send the transactions that are committed at or behind ``from_lsn``. Raises ConnectorError."""
        import psycopg
        from psycopg import generators
        from psycopg.pq import ExecStatus

        # Both names consist of letters, digits and underscores, as their settings demand.
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(from_lsn)} '
            f"(proto_version '1', publication_names '\"{publication}\"')"
        )
        try:
            self._pgconn.send_query(command.encode())
            (result,) = await self._connection.wait(generators.execute(self._pgconn))
        except psycopg.Error as error:
            raise refusal("slot", error) from error
        if result.status != ExecStatus.COPY_BOTH:
            text = result.error_message.decode(errors="replace").strip()
            raise ConnectorError(f"configs.slot: {text[:SECOND_LINE]}")
        self._confirmed = self.sent_lsn = from_lsn
        self._report()

    async def receive(self, count: int) -> list[bytes]:
        """Wait for messages of the plugin, or for news of ``sent_lsn``, and return at most ``count``, perhaps none.

        Safe to cancel: what is not returned is returned by the next call. Raises ConnectorError when the connection
        ends."""
        import psycopg

        try:
            messages = self._take(count)
            if messages is None:
                await self._readable()
                self._pgconn.consume_input()
                messages = self._take(count)
        except psycopg.Error as error:
            text = str(error).strip()[:SECOND_LINE]
            raise ConnectorError(
                f"configs.url: the server ended the replication: {text}"
            ) from error
        return messages or []

    def _take(self, count: int) -> list[bytes] | None:
        """Return what has arrived, at most ``count`` messages; None without anything."""
        messages: list[bytes] = []
        arrived = False
        while len(messages) < count:
            size, data = self._pgconn.get_copy_data(1)
            if size == 0:
                break
            if size < 0:
                raise ConnectorError("configs.url: the server ended the replication")
            arrived = True
            kind = bytes(data[:1])
            if kind == b"w":
                messages.append(bytes(data[_DATA.size :]))
            elif kind == b"k":
                _, lsn, _, answer = _KEEPALIVE.unpack(bytes(data))
                self.sent_lsn = max(self.sent_lsn, lsn)
                if answer:
                    self._report()
        return messages if arrived else None

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            if not readable.done():
                readable.set_result(None)

        socket = self._pgconn.socket
        loop.add_reader(socket, note)
        try:
            await readable
        finally:
            loop.remove_reader(socket)

    def confirm(self, lsn: int) -> None:
        """Report that everything before ``lsn`` is stored for good: the server may forget it. Raises ConnectorError."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._report()

    def _report(self) -> None:
        import psycopg

        if self._beat is not None:
            self._beat.cancel()
        self._beat = asyncio.get_running_loop().call_later(STATUS_S, self._report_again)
        at_us = (self._clock.wall_ms() - EPOCH_MS) * 1000
        status = _STATUS.pack(b"r", *[self._confirmed] * 3, at_us, 0)
        try:
            self._pgconn.put_copy_data(status)
            self._pgconn.flush()
        except psycopg.Error as error:
            raise refusal("url", error) from error

    def _report_again(self) -> None:
        try:
            self._report()
        except ConnectorError:
            # The next ``receive`` raises the same, where it is shown.
            self._beat = None

    async def close(self) -> None:
        """End the connection, and with it the use of the slot."""
        if self._beat is not None:
            self._beat.cancel()
        await self._connection.close()
