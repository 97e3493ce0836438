"""A producer of entries of another cluster's topic, whose receipts name their positions there (G2)."""

from collections import deque
from collections.abc import Callable, Sequence

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.broker_link import BrokerLink
from engine.client.errors import RefusedError
from engine.client.raw_producer import RawProducer, ReceiptOrderError
from engine.wire import client_commands as say
from engine.wire.commands import NOWHERE
from engine.wire.events import Receipt
from engine.wire.frames import FRAME_OVERHEAD
from engine.wire.geo.source_positions import MARKER_RECEIPT, replicator_name
from engine.wire.kernels import build_sends

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


class ReplicatingProducer(RawProducer):
    """A producer made by ``attach``. ``on_stored`` is called with positions in the order of sending.

    After a refusal it still receives receipts until it is closed: a broker may go on behind a refused entry. Its
    position is ``overtaken`` then.
    """

    _positions: deque[Position]
    _markers: dict[int, Position]
    _last: Position
    _on_stored: Callable[[Sequence[Position]], None]
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
        on_stored: Callable[[Sequence[Position]], None],
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
        producer._positions = deque()
        producer._markers = {}
        producer._last = Position(-1, -1)
        producer._on_stored = on_stored
        producer._count = 0
        producer._stores = stores
        producer._lost, producer.overtaken = lost, None
        return producer

    @property
    def unanswered(self) -> int:
        """The number of entries sent without a receipt."""
        return len(self._positions) + len(self._markers)

    def next_positions(self, count: int) -> list[Position]:
        """Return the positions of the next ``count`` entries of a non-persistent topic."""
        return [Position(0, self._count + k) for k in range(count)]

    def send_from(
        self,
        positions: Sequence[Position],
        entries: Sequence[bytes],
        counts: Sequence[int] | None,
    ) -> None:
        """Send entries of these rising positions, without waiting. Raises as ``send``."""
        if self.error is None:
            self._check_size(max(map(len, entries), default=0), METADATA_BYTES_MAX)
            self._positions += positions
            sequences = range(self._count, self._count + len(entries))
            self._count += len(entries)
            self.link.send_parts(build_sends(self.producer_id, sequences, entries, counts))

    def send_markers(self, positions: Sequence[Position], entries: Sequence[bytes]) -> None:
        """Send markers, which brokers wrote for brokers, without waiting. Raises as ``send``.

        Their receipts have the sequence ids as sent and may arrive before those of earlier messages.
        """
        if self.error is None:
            self._check_size(max(map(len, entries), default=0))
            for position, entry in zip(positions, entries, strict=True):
                self._markers[self._count] = position
                self.link.send(say.send(self.producer_id, self._count, entry, marker=True))
                self._count += 1

    def receipts(self, receipts: Sequence[Receipt]) -> None:
        waiting, stored = self._positions, []
        for receipt in receipts:
            if receipt.highest_sequence_id == MARKER_RECEIPT:
                marker = self._markers.pop(receipt.sequence_id, None)
                if marker is not None:
                    stored.append(marker)
                continue
            position = (
                Position(receipt.sequence_id, receipt.highest_sequence_id)
                if self._stores
                else Position(0, receipt.sequence_id)
            )
            if waiting and waiting[0] == position:
                if position == self._lost and receipt.position == NOWHERE:
                    self._end(NotStoredError(f"{position} {LOST}"))
                    break
                self._last = waiting.popleft()
                stored.append(position)
            elif position > self._last:
                if self.error is not None and waiting:
                    self.overtaken = waiting[0]
                    break
                awaited = waiting[0] if waiting else "none"
                raise ReceiptOrderError(f"receipt for {position} while {awaited} is awaited")
        if stored:
            self._on_stored(stored)

    def _refused(self, sequence_id: int, error: RefusedError) -> None:
        if self._set_ended(error):
            self.link.producers[self.producer_id] = self
            self._on_end(error)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            self.link.producers.pop(self.producer_id, None)
