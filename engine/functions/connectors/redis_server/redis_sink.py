"""Messages as keys, hash fields, list elements or stream entries of Redis, or as published texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.functions.connectors.connector_settings import fields, text, whole
from engine.functions.connectors.redis_server.redis_link import RedisLink, server_fields
from engine.functions.connectors.spi import (
    ConnectorContext,
    ConnectorError,
    LostEndError,
    Record,
    Sink,
)

SET, HASH, LIST, STREAM, PUBLISH = "set", "hash", "list", "stream", "publish"
SINK_SETTINGS = fields(
    ("url",),
    **server_fields(),
    mode=text(
        "Mode",
        "set: a key of each message's key; hash: a field of each; list: appended; stream: an entry of a stream; "
        "publish: to a channel",
        SET,
        choices=(SET, HASH, LIST, STREAM, PUBLISH),
    ),
    name=text("Name", "Key of the hash, list or stream, channel, or beginning of the keys of set"),
    expireSeconds=whole(
        "Expiry", "Seconds after which a key of set expires; 0: never", 0, 0, 10**9
    ),
    maxLength=whole("Length", "Entries that a list or stream keeps, about; 0: all", 0, 0, 10**12),
)
POSITIONS = "magnetar:positions:{}/{}/{}"
"""Key of a hash that has the last sequence of each partition that a sink has written, with EFFECTIVELY_ONCE."""


class RedisSink(Sink):
    """A sink whose runs are transactions of Redis. With EFFECTIVELY_ONCE each transaction also notes how far it came,
    and messages up to there are acknowledged without being written again."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Sink``. Raises ConnectorError that names the setting."""
        self._settings, self._context = settings, context
        self._link: RedisLink | None = None
        self._name = settings.get("name", "")
        if settings["mode"] != SET and not self._name:
            raise ConnectorError(f"configs.name: {settings['mode']} needs a name")
        self._link = await RedisLink.open(settings)
        self._redis = self._link.client
        self._ordered = context.guarantee == "EFFECTIVELY_ONCE"
        self._positions = POSITIONS.format(context.tenant, context.namespace, context.name)
        self._written: dict[str, int] = {}

    async def write(self, records: Sequence[Record]) -> None:
        """See ``Sink``. Any error of the server concerns all messages, such as a key of another type."""
        from redis.exceptions import RedisError

        try:
            await self._write(records)
        except (RedisError, OSError) as error:
            raise LostEndError(f"configs.url: {type(error).__name__}: {error}") from error

    async def _write(self, records: Sequence[Record]) -> None:
        run: list[Record] = []
        for record in records:
            if self._ordered and (record.sequence or 0) <= await self._written_up_to(
                record.partition
            ):
                record.ack()
            elif record.key is None and self._settings["mode"] in (SET, HASH):
                error = ConnectorError("the message has no key")
                if self._ordered:
                    raise error
                record.fail(error)
            else:
                run.append(record)
        if not run:
            return
        ends = {record.partition: record.sequence or 0 for record in run}
        async with self._redis.pipeline(transaction=True) as pipeline:
            for record in run:
                self._add(pipeline, record)
            if self._ordered:
                pipeline.hset(self._positions, mapping=ends)
            await pipeline.execute()
        if self._ordered:
            self._written |= ends
        for record in run:
            record.ack()

    async def _written_up_to(self, partition: str) -> int:
        written = self._written.get(partition)
        if written is None:
            stored = await self._redis.hget(self._positions, partition)
            written = self._written[partition] = -1 if stored is None else int(stored)
        return written

    def _add(self, pipeline: Any, record: Record) -> None:
        value, length = record.payload, self._settings["maxLength"]
        match self._settings["mode"]:
            case "set":
                expiry = self._settings["expireSeconds"] or None
                pipeline.set(f"{self._name}{record.key}", value, ex=expiry)
            case "hash":
                pipeline.hset(self._name, record.key, value)
            case "list":
                pipeline.rpush(self._name, value)
                if length:
                    pipeline.ltrim(self._name, -length, -1)
            case "stream":
                entry: dict[str, Any] = {"value": value, "message_id": record.message_id}
                if record.key is not None:
                    entry["key"] = record.key
                pipeline.xadd(self._name, entry, maxlen=length or None, approximate=True)
            case _:
                pipeline.publish(self._name, value)

    async def close(self) -> None:
        """See ``Sink``."""
        if self._link is not None:
            await self._link.close()
