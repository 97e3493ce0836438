"""A producer of entries of another cluster's topic, whose receipts name their positions there (G2)."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.client.broker_link import BrokerLink
from engine.client.errors import RefusedError
from engine.client.raw_producer import RawProducer, ReceiptOrderError
from engine.wire import client_commands as say
from engine.wire.commands import NOWHERE
from engine.wire.events import Receipt
from engine.wire.frames import FRAME_OVERHEAD
from engine.wire.geo.sent_entries import sent_frames
from engine.wire.geo.source_positions import MARKER_RECEIPT, replicator_name

FEATURES = {"supports_repl_dedup_by_lid_and_eid": True}
"""Feature flags of a link with such producers."""
METADATA_BYTES_MAX = FRAME_OVERHEAD - 256
"""Bytes by which an entry may exceed the limit of messages: a chunk is as large as the limit without what is added to
its metadata here. The rest of the frame's overhead is the command."""


LOST = (
    "was refused there, but entries behind it are stored, so that it is taken for stored when it is sent again. "
    "Pass it by the route skip of the replicator's cursor"
)


class NotStoredError(MagnetarError):
    """An entry that the other broker refused, and takes for stored since it stored what was sent behind it."""


class SentRun:
    """Consecutive entries of a ledger that were sent together. ``done``: the number of them that have a receipt.

    ``sizes``: the bytes of each; ``counts``: the messages of each, None when all are single; ``since_s``: the time of
    sending.
    """

    __slots__ = ("counts", "done", "first", "ledger_id", "since_s", "sizes")

    def __init__(
        self,
        ledger_id: int,
        first: int,
        sizes: list[int],
        counts: list[int] | None,
        since_s: float = 0.0,
    ) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.sizes = sizes
        self.counts = counts
        self.since_s = since_s
        self.done = 0

    @property
    def position(self) -> Position:
        """Position of the first entry without a receipt, of which there is one."""
        return Position(self.ledger_id, self.first + self.done)


class ReplicatingProducer(RawProducer):
    """A producer made by ``attach``. ``on_stored`` is called with a run and the number of its next entries that are
    stored, in the order of sending; ``done`` includes them.

    After a refusal it still receives receipts until it is closed: a broker may go on behind a refused entry. Its
    position is ``overtaken`` then.
    """

    _sent: deque[SentRun]
    _markers: dict[int, SentRun]
    _unstored: int
    _last: Position
    _on_stored: Callable[[SentRun, int], None]
    _count: int
    _stores: bool
    _lost: Position | None
    overtaken: Position | None

    @classmethod
    async def attach(
        cls,
        link: BrokerLink,
        topic: str,
        *,
        origin: str,
        destination: str,
        on_stored: Callable[[SentRun, int], None],
        on_end: Callable[[Exception], None],
        stores: bool = True,
        lost: Position | None = None,
    ) -> "ReplicatingProducer":
        """Attach the replicator of ``origin`` to a topic of ``destination``. Raises as ``RawProducer.open``.

        ``lost``: the entry that was ``overtaken`` at an earlier producer. If the broker answers it as a repetition, it
        is not stored: the producer ends with NotStoredError.

        Without ``stores`` the topic is non-persistent: its entries have the positions 0:0, 0:1 and so on, which
        receipts do not name.
        """
        name = replicator_name(origin, destination)
        producer = await cls.open(link, topic, name=name, on_end=on_end)
        assert isinstance(producer, cls)
        producer._sent = deque()
        producer._markers = {}
        producer._unstored = 0
        producer._last = Position(-1, -1)
        producer._on_stored = on_stored
        producer._count = 0
        producer._stores = stores
        producer._lost, producer.overtaken = lost, None
        return producer

    @property
    def unanswered(self) -> int:
        """The number of entries sent without a receipt."""
        return self._unstored + len(self._markers)

    @property
    def oldest_s(self) -> float | None:
        """The time at which the oldest entry without a receipt was sent; None without one."""
        first = (*islice(self._sent, 1), *islice(self._markers.values(), 1))
        return min((sent.since_s for sent in first), default=None)

    def send_from(
        self,
        run: Slice,
        indexes: range,
        origin: bytes,
        versions: Mapping[int, bytes],
        now_s: float,
    ) -> SentRun | None:
        """Send consecutive entries of a run as ``sent_frames`` builds them, without waiting; None after the end.

        Their positions rise from call to call. Raises as ``send``.
        """
        if self.error is not None:
            return None
        parts, sizes = sent_frames(run, indexes, origin, versions, self.producer_id, self._count)
        self._check_size(max(sizes), METADATA_BYTES_MAX)
        counts = None if run.counts is None else run.counts[indexes.start : indexes.stop]
        sent = (
            SentRun(run.ledger_id, run.first + indexes.start, sizes, counts, now_s)
            if self._stores
            else SentRun(0, self._count, sizes, counts, now_s)
        )
        self._sent.append(sent)
        self._unstored += len(sizes)
        self._count += len(sizes)
        self.link.send_parts(parts)
        return sent

    def send_marker(self, position: Position, entry: bytes, now_s: float) -> SentRun | None:
        """Send a marker, which a broker wrote for brokers, without waiting; None after the end. Raises as ``send``.

        Its receipt has the sequence id as sent and may arrive before those of earlier messages.
        """
        if self.error is not None:
            return None
        self._check_size(len(entry))
        sent = self._markers[self._count] = SentRun(*position, [len(entry)], [0], now_s)
        self.link.send(say.send(self.producer_id, self._count, entry, marker=True))
        self._count += 1
        return sent

    def receipts(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            if receipt.highest_sequence_id == MARKER_RECEIPT:
                marker = self._markers.pop(receipt.sequence_id, None)
                if marker is not None:
                    marker.done = 1
                    self._on_stored(marker, 1)
            elif not self._received(receipt):
                break

    def _received(self, receipt: Receipt) -> bool:
        """Pass on what a receipt is for; return False when those behind it count for nothing."""
        position = (
            Position(receipt.sequence_id, receipt.highest_sequence_id)
            if self._stores
            else Position(0, receipt.sequence_id)
        )
        count = receipt.run_length
        while count:
            first = self._sent[0] if self._sent else None
            if first is not None and first.position == position:
                stored = min(count, len(first.sizes) - first.done)
                lost = self._lost
                if lost is not None and receipt.position == NOWHERE:
                    if lost == position:
                        self._end(NotStoredError(f"{position} {LOST}"))
                        return False
                    if position < lost < (position.ledger_id, position.entry_id + stored):
                        stored = lost.entry_id - position.entry_id
                self._pass(stored)
            elif position > self._last:
                if self.error is not None and first is not None:
                    self.overtaken = first.position
                    return False
                awaited = first.position if first is not None else "none"
                raise ReceiptOrderError(f"receipt for {position} while {awaited} is awaited")
            else:
                stored = 1  # a repeated receipt
            position = Position(position.ledger_id, position.entry_id + stored)
            count -= stored
        return True

    def _pass(self, count: int) -> None:
        """Take the next ``count`` entries, all of the first run, for stored."""
        sent = self._sent[0]
        sent.done += count
        self._unstored -= count
        self._last = Position(sent.ledger_id, sent.first + sent.done - 1)
        if sent.done == len(sent.sizes):
            self._sent.popleft()
        self._on_stored(sent, count)

    def _refused(self, sequence_id: int, error: RefusedError) -> None:
        if self._set_ended(error):
            self.link.producers[self.producer_id] = self
            self._on_end(error)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            self.link.producers.pop(self.producer_id, None)
