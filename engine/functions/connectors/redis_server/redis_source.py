"""Entries of a Redis stream as messages, by a consumer group."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.connector_settings import fields, text, whole
from engine.functions.connectors.redis_server.redis_link import ANSWER_S, RedisLink, server_fields
from engine.functions.connectors.redis_server.redis_sink import SINK_SETTINGS, RedisSink
from engine.functions.connectors.spi import ConnectorContext, ConnectorError, Record, Source

EARLIEST, LATEST = "earliest", "latest"
SEQUENCE_BITS = 20
"""Bits of a record's sequence for the number of an entry within its millisecond."""
SOURCE_SETTINGS = fields(
    ("url", "stream"),
    **server_fields(),
    stream=text("Stream", "Key of the stream"),
    group=text("Group", "Consumer group, which is made if it is missing; empty: the source's name"),
    start=text("Start", "Where a new group begins", EARLIEST, choices=(EARLIEST, LATEST)),
    valueField=text(
        "Field of the value",
        "Field of an entry that is the value; empty: a JSON object of all fields, NAME_base64 for one that is no UTF-8",
    ),
    keyField=text("Field of the key", "Field of an entry that is the message's key"),
    batch=whole("Batch", "Entries of one read at most", 500, 1, 10_000),
)


class RedisSource(Source):
    """A source of entries. Each instance is a consumer of the group, ``magnetar-N``; entries that it has read and not
    acknowledged are read again first."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``. Raises ConnectorError that names the setting."""
        from redis.exceptions import RedisError, ResponseError

        self._settings, self._context = settings, context
        self._link: RedisLink | None = None
        self._stream = settings["stream"]
        self._group = (
            settings.get("group") or f"{context.tenant}/{context.namespace}/{context.name}"
        )
        self._acked: list[bytes] = []
        self._link = await RedisLink.open(settings)
        self._redis = self._link.client
        start = "0" if settings["start"] == EARLIEST else "$"
        try:
            await self._redis.xgroup_create(self._stream, self._group, id=start, mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise ConnectorError(f"configs.stream: {error}") from error
        except RedisError as error:
            raise ConnectorError(f"configs.stream: {error}") from error
        self._again = [context.instance]
        if context.instance == 0:  # it also has the entries of instances that there were before
            consumers = await self._redis.xinfo_consumers(self._stream, self._group)
            numbers = [_number(row["name"]) for row in consumers if row["pending"]]
            self._again += sorted(n for n in numbers if n is not None and n >= context.instances)
        self._after = b"0"

    async def read(self) -> Sequence[Record]:
        """See ``Source``."""
        while self._again:
            rows = await self._read(self._again[0], self._after, None)
            if rows:
                self._after = rows[-1][0]
                records = self._records(self._again[0], rows)
                if records:
                    return records
                continue
            self._again.pop(0)
            self._after = b"0"
        while True:
            rows = await self._read(self._context.instance, b">", int(ANSWER_S * 500))
            if rows:
                return self._records(self._context.instance, rows)

    async def _read(self, consumer: int, after: bytes, block_ms: int | None) -> list[Any]:
        answer = await self._redis.xreadgroup(
            self._group,
            f"magnetar-{consumer}",
            {self._stream: after},
            count=self._settings["batch"],
            block=block_ms,
        )
        if isinstance(answer, Mapping):
            answer = list(answer.items())
        return list(answer[0][1]) if answer else []

    def _records(self, consumer: int, rows: list[Any]) -> list[Record]:
        records = []
        for entry_id, entry in rows:
            if not entry:  # it was trimmed since it was read first
                self._context.log.error("entry %s was trimmed before it was stored", entry_id)
                self._acked.append(entry_id)
                continue
            at_ms, _, number = entry_id.partition(b"-")
            self._check_order(int(at_ms), int(number))
            records.append(
                Record(
                    self._value(entry),
                    key=self._key(entry),
                    properties={"redis.id": entry_id.decode()},
                    event_time_ms=int(at_ms),
                    partition=f"{self._stream}-{consumer}",
                    sequence=int(at_ms) << SEQUENCE_BITS | int(number),
                    on_settled=self._settled,
                )
            )
        return records

    def _check_order(self, at_ms: int, number: int) -> None:
        """Raise ConnectorError for an entry whose sequence would be that of another one, which a topic would drop."""
        if self._context.guarantee != "EFFECTIVELY_ONCE":
            return
        if number >> SEQUENCE_BITS or at_ms >> (63 - SEQUENCE_BITS):
            raise ConnectorError(
                f"configs.stream: the id {at_ms}-{number} of an entry is above {2 ** (63 - SEQUENCE_BITS)}-"
                f"{2**SEQUENCE_BITS}: use ATLEAST_ONCE"
            )

    def _value(self, entry: Mapping[bytes, bytes]) -> bytes:
        name = self._settings.get("valueField")
        if name:
            return entry.get(name.encode(), b"")
        shown: dict[str, str] = {}
        for key, value in entry.items():
            field = key.decode(errors="replace")
            try:
                shown[field] = value.decode()
            except UnicodeDecodeError:
                shown[f"{field}_base64"] = base64.b64encode(value).decode()
        return json.dumps(shown, separators=(",", ":")).encode()

    def _key(self, entry: Mapping[bytes, bytes]) -> str | None:
        name = self._settings.get("keyField")
        value = entry.get(name.encode()) if name else None
        return None if value is None else value.decode(errors="replace")

    def _settled(self, record: Record, error: BaseException | None) -> None:
        if error is None:
            self._acked.append(record.properties["redis.id"].encode())

    async def commit(self) -> None:
        """See ``Source``."""
        acked, self._acked = self._acked, []
        if acked:
            await self._redis.xack(self._stream, self._group, *acked)

    async def close(self) -> None:
        """See ``Source``."""
        if self._link is not None:
            await self._link.close()


def _number(consumer: bytes) -> int | None:
    """Return the number of the instance that a consumer is, None for another's."""
    name, _, number = consumer.decode(errors="replace").rpartition("-")
    return int(number) if name == "magnetar" and number.isdecimal() else None


REDIS = BuiltIn(
    "redis",
    "Writes to keys, lists and streams of Redis, and reads streams",
    source=ConnectorEnd(
        RedisSource,
        SOURCE_SETTINGS,
        "effectively once",
        "Each entry is published once, where the output topic deduplicates (EFFECTIVELY_ONCE), and as durable as the "
        "server's own storage.",
    ),
    sink=ConnectorEnd(
        RedisSink,
        SINK_SETTINGS,
        "effectively once",
        "Each message is written once with EFFECTIVELY_ONCE, and as durable as the server's own storage; else a "
        "message may be written twice after a failure.",
    ),
)
