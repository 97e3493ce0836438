"""A stand-in for an instance around a connector: state in memory, and records that note how they were settled."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.base.clock import Clock, LoopClock
from engine.functions.connectors.spi import Guarantee, Record, Source


@dataclass
class FakeContext:
    """The context of an instance. Its state outlives connectors that are opened with it."""

    tenant: str = "public"
    namespace: str = "default"
    name: str = "try"
    instance: int = 0
    instances: int = 1
    guarantee: Guarantee = "ATLEAST_ONCE"
    input_topics: Sequence[str] = ("persistent://public/default/in",)
    output_topic: str = "persistent://public/default/out"
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("connector"))
    clock: Clock = field(default_factory=LoopClock)
    secrets: dict[str, str] = field(default_factory=dict)
    state: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def secret(self, name: str) -> str | None:
        return self.secrets.get(name)

    async def get_state(self, key: str) -> bytes | None:
        return self.state.get(key)

    async def put_state(self, key: str, value: bytes) -> None:
        self.state[key] = value

    def record_metric(self, name: str, value: float) -> None:
        self.metrics[name] = value

    def trouble(self, text: str) -> None:
        self.troubles.append(text)


class Settlements:
    """The outcome of the records of a sink."""

    def __init__(self) -> None:
        self.acked: list[Record] = []
        self.failed: list[tuple[Record, BaseException]] = []

    def note(self, record: Record, error: BaseException | None) -> None:
        if error is None:
            self.acked.append(record)
        else:
            self.failed.append((record, error))

    def record(self, n: int, value: object, *, key: str | None = None) -> Record:
        """Return message ``n`` of partition 0 of the input topic."""
        topic = "persistent://public/default/in"
        return Record(
            value,
            key=key,
            topic=topic,
            partition=f"{topic}-partition-0",
            sequence=n,
            message_id=f"7:{n}:0:-1",
            event_time_ms=1_700_000_000_000 + n,
            properties={"n": str(n)},
            on_settled=self.note,
        )


async def read_all(source: Source, count: int) -> list[Record]:
    """Read until there are ``count`` records."""
    records: list[Record] = []
    async with asyncio.timeout(30):
        while len(records) < count:
            records += await source.read()
    return records
