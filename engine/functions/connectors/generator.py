"""Records made up at a steady rate: for tries, and for load."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.connector_settings import fields, number, text, whole
from engine.functions.connectors.spi import AckedPrefix, ConnectorContext, Record, Source

RUN_MAX = 1000
"""Records of one run at most."""
STATE = "generator-{}"
NUMBER = "{n}"
SETTINGS = fields(
    (),
    rate=number("Rate", "Records per second of each instance", 1.0, 0.001, 1_000_000),
    count=whole("Count", "Records of each instance in all; 0: without end", 0, 0, 2**53),
    template=text(
        "Template",
        "The value; {n} is the record's number, {instance} the instance's, {time} the time in ms. "
        "Empty: a JSON object of these",
        pattern=r"^[^\x00]*$",
        longest=65_536,
    ),
    keys=whole("Keys", "Number of different keys; 0: records without a key", 0, 0, 1_000_000),
)


class GeneratorSource(Source):
    """A source of numbered records. It goes on behind the last acknowledged number after a restart."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``."""
        self._settings, self._context = settings, context
        self._key = STATE.format(context.instance)
        stored = await context.get_state(self._key)
        self._acked = AckedPrefix(int(stored) if stored else 0)
        self._committed = self._next = self._acked.position
        self._began_s = context.clock.monotonic_s()
        self._first = self._next

    async def read(self) -> Sequence[Record]:
        """See ``Source``. A record is due at its number by the rate, counted from the start."""
        count, rate = self._settings["count"], self._settings["rate"]
        if count and self._next >= count:
            await asyncio.Event().wait()  # until the instance stops
        passed_s = self._context.clock.monotonic_s() - self._began_s
        due = self._first + 1 + int(passed_s * rate) - self._next
        if due <= 0:
            await asyncio.sleep((self._next - self._first) / rate - passed_s)
            due = 1
        run = min(due, RUN_MAX, count - self._next if count else RUN_MAX)
        records = [self._record(n) for n in range(self._next + 1, self._next + 1 + run)]
        for record in records:
            assert record.sequence is not None
            self._acked.read(record.sequence)
        self._next += run
        return records

    def _record(self, n: int) -> Record:
        keys, instance = self._settings["keys"], self._context.instance
        at_ms = self._context.clock.wall_ms()
        template = self._settings.get("template")
        values = {NUMBER: n, "{instance}": instance, "{time}": at_ms}
        if template:
            for name, value in values.items():
                template = template.replace(name, str(value))
        else:
            template = json.dumps({name.strip("{}"): value for name, value in values.items()})
        return Record(
            template.encode(),
            key=f"key-{n % keys}" if keys else None,
            event_time_ms=at_ms,
            partition=f"generator-{instance}",
            sequence=n,
            on_settled=self._settled,
        )

    def _settled(self, record: Record, error: BaseException | None) -> None:
        if error is None and record.sequence is not None:
            self._acked.ack(record.sequence)

    async def commit(self) -> None:
        """See ``Source``."""
        if self._acked.position != self._committed:
            position = self._acked.position
            await self._context.put_state(self._key, b"%d" % position)
            self._committed = position


GENERATOR = BuiltIn(
    "generator",
    "Makes records at a steady rate",
    source=ConnectorEnd(
        GeneratorSource,
        SETTINGS,
        "effectively once",
        "Each number is published once, where the output topic deduplicates (EFFECTIVELY_ONCE).",
    ),
)
