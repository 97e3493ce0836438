"""Interfaces that dispatch needs of the managed ledger."""

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import View
from engine.managed.cursors.index_ledgers import IndexLedgers


class DeliveryObserver(Protocol):
    """Observer of what one subscription sends and acknowledges, while entries of its topic are traced."""

    def delivered(
        self, consumer_id: int, consumer: str, view: View, redeliveries: list[int] | None
    ) -> None:
        """Note that ``view`` was sent; ``redeliveries``: deliveries of its entries before this one, None for none."""
        ...

    def acknowledged(self) -> None:
        """Note that the subscription acknowledged entries."""
        ...


class Transactional(Protocol):
    """A topic whose messages may be of transactions."""

    @property
    def aborted(self) -> Collection[tuple[int, int]]:
        """Aborted transactions, most and least significant bits, whose messages no consumer receives."""
        ...


class DispatchCursor(Protocol):
    """Reader of one subscription's unacknowledged entries, in order, such as ``Cursor`` of the managed ledger."""

    name: str

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        """Return the next entries and advance past them: at least one; ``[]`` when there are none now.

        None: they are not in memory, use ``read``. Raises ManagedLedgerFencedError or ManagedLedgerClosedError when the
        topic is closing.
        """
        ...

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """Return the next entries as ``read_nowait`` does, waiting for storage. Cancel-safe: does not advance then."""
        ...

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        """Return these entries again, in order, without those that are acknowledged or deleted. Cancel-safe.

        Only as many are returned as keep ``bytes_max`` bytes of buffers in memory, at least one buffer's.
        """
        ...

    def rewind(self) -> None:
        """Continue at the first unacknowledged entry."""
        ...

    def is_acknowledged(self, position: Position) -> bool: ...

    @property
    def has_partial_batches(self) -> bool:
        """True when any batch is acknowledged in part: otherwise ``ack_set`` returns None for all positions."""
        ...

    def ack_set(self, position: Position) -> list[int] | None:
        """Return 64-bit words of a batch acknowledged in part (bit set: not acknowledged); None for other entries."""
        ...


class DelayCursor(DispatchCursor, Protocol):
    """Cursor of a subscription that keeps entries until their delivery time."""

    def backlog_entries(self) -> int:
        """Return the number of unacknowledged entries."""
        ...

    @property
    def read_position(self) -> Position:
        """The next entry to be read."""
        ...

    @property
    def index(self) -> IndexLedgers | None:
        """Ledgers that can store an index of delayed entries; None where it cannot be stored."""
        ...

    def set_aside(self, spans: Iterable[tuple[int, int, int]]) -> None:
        """Leave entries out of reads until the reader has passed all of them, instead of those of an earlier call.

        ``spans``: (ledger id, first entry, behind the last entry), in any order.
        """
        ...
