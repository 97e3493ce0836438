"""The interface of sources and sinks, after Pulsar's Java ``Source`` and ``Sink``, in runs of records instead of single
ones.

All methods run on one event loop: what waits is awaited, what blocks belongs in ``asyncio.to_thread``. An exception is
counted and shown to the owner. The instance then closes the connector and starts again after a pause, from what was
acknowledged; but an exception of a sink's ``write`` concerns the messages, unless it is a LostEndError.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from engine.base.clock import Clock
from engine.base.errors import WorldError
from engine.wire import pulsar_pb2 as pb

Guarantee = Literal["ATMOST_ONCE", "ATLEAST_ONCE", "EFFECTIVELY_ONCE"]
"""Pulsar's ``processingGuarantees``."""
Settled = Callable[["Record", BaseException | None], None]
"""Called once for a record, with None or with the reason why it failed."""


class ConnectorError(WorldError):
    """The system at the other end is unusable or unreachable; the text is for its owner."""


class LostEndError(ConnectorError):
    """The system at the other end takes no message at all: it is gone, or lacks what it had. No message counts as
    failed by it; the instance starts again after a pause."""


@dataclass(slots=True, eq=False)
class Record:
    """One record on its way from a source to a topic, or from a topic to a sink.

    ``value``: bytes, or a decoded value where the connector has a schema. ``partition`` and ``sequence``: its place in
    what it comes from; in a partition the sequence grows, and a source that starts again gives the same record the same
    sequence (below 2**63), by which topics drop what they have. Of a sink's record they are the input topic's partition
    and, with EFFECTIVELY_ONCE, a number that grows with the message id. ``message_id``: that id as text,
    ``ledger:entry:partition:batch``.
    """

    value: Any
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time_ms: int | None = None
    topic: str = ""
    """The topic that it came from; of a source's record its destination, if not the source's own topic."""
    partition: str = ""
    sequence: int | None = None
    message_id: str = ""
    on_settled: Settled | None = None
    settled: bool = False

    @property
    def payload(self) -> bytes:
        """The value as bytes: texts in UTF-8, decoded values as JSON."""
        if isinstance(self.value, bytes):
            return self.value
        if isinstance(self.value, str):
            return self.value.encode()
        return json.dumps(self.value, separators=(",", ":"), default=str).encode()

    def ack(self) -> None:
        """Report that the record is safe at its destination. Safe to repeat."""
        self._settle(None)

    def fail(self, error: BaseException) -> None:
        """Report that the record could not be delivered; it is delivered again. Ignored once it is settled."""
        self._settle(error)

    def _settle(self, error: BaseException | None) -> None:
        if self.settled:
            return
        self.settled = True
        if self.on_settled is not None:
            self.on_settled(self, error)


class ConnectorContext(Protocol):
    """The instance around a connector, as far as the connector may use it."""

    tenant: str
    namespace: str
    name: str
    instance: int
    """Number of this instance, from 0."""
    instances: int
    guarantee: Guarantee
    input_topics: Sequence[str]
    output_topic: str
    log: logging.Logger
    clock: Clock

    def secret(self, name: str) -> str | None:
        """Return a secret of the function's secrets map; None without it."""
        ...

    async def get_state(self, key: str) -> bytes | None:
        """Return a value of the function's state, which outlives instances and workers."""
        ...

    async def put_state(self, key: str, value: bytes) -> None:
        """Store a value; it is durable when this returns."""
        ...

    def record_metric(self, name: str, value: float) -> None: ...

    def trouble(self, text: str) -> None:
        """Show the owner an error that ends nothing: it is counted as an exception."""
        ...


class Source(ABC):
    """Reads records from elsewhere, which the instance publishes. ``schema``: that of values which are bytes already,
    known once it is open; None: the one of the output, if any.

    ``answers_senders``: True where each sender is answered whether its record was stored. Otherwise the instance
    ends by a record that is not, and starts again from what was acknowledged."""

    schema: pb.Schema | None = None
    answers_senders = False

    @abstractmethod
    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """Prepare. ``settings`` are checked, with defaults filled in and secrets resolved."""

    @abstractmethod
    async def read(self) -> Sequence[Record]:
        """Wait for at least one record and return those that are there. A record is acknowledged when its message is
        stored; only then may the source forget it. Cancelled when the instance stops: nothing may be lost by that."""

    async def commit(self) -> None:  # noqa: B027 (nothing to do for most)
        """Make durable what was acknowledged since the last call. Called at intervals, and before ``close``."""

    async def close(self) -> None:  # noqa: B027 (as above)
        """Release everything. Called once, also after ``open`` has failed."""


class Sink(ABC):
    """Writes records of topics elsewhere."""

    @abstractmethod
    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """Prepare. ``settings`` are checked, with defaults filled in and secrets resolved."""

    @abstractmethod
    async def write(self, records: Sequence[Record]) -> None:
        """Write a run of records in order, and acknowledge or fail each, here or later. An exception fails those of the
        run that are not settled. A failed message is delivered again, and becomes a dead letter after the sink's
        ``maxMessageRetries``. With EFFECTIVELY_ONCE, and by a LostEndError always, the instance ends at the first
        failure and starts again behind what was acknowledged."""

    async def flush(self) -> None:  # noqa: B027 (nothing to do for most)
        """Write and settle what is held back. Called before ``close`` when the instance stops in order."""

    async def close(self) -> None:  # noqa: B027 (as above)
        """Release everything. Called once, also after ``open`` has failed."""


class AckedPrefix:
    """The positions of one partition of a source: how far all records are acknowledged, in the order of reading."""

    __slots__ = ("_acked", "_waiting", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        """The last position up to which everything is acknowledged."""
        self._waiting: dict[int, None] = {}
        self._acked: set[int] = set()

    def read(self, position: int) -> None:
        """Note a record that was read. Positions grow."""
        self._waiting[position] = None

    def ack(self, position: int) -> None:
        """Note that the record at ``position`` is stored."""
        self._acked.add(position)
        while self._waiting:
            first = next(iter(self._waiting))
            if first not in self._acked:
                return
            self._acked.remove(first)
            del self._waiting[first]
            self.position = first

    @property
    def pending(self) -> int:
        """Number of records that are read and not covered by ``position``."""
        return len(self._waiting)
