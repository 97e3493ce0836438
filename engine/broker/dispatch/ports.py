"""What dispatch needs of those below it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import View
from engine.managed.cursors.index_ledgers import IndexLedgers


class DispatchCursor(Protocol):
    """The entries of one subscription that are still due, in order; ``Cursor`` of the managed ledger is one."""

    name: str

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        """The next entries, at least one if any, passing over them. ``[]``: none now; ``None``: ``read`` has to wait.

        Raises ManagedLedgerFencedError or ManagedLedgerClosedError when the topic is on its way out.
        """
        ...

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """As ``read_nowait``, waiting for storage. Cancel-safe: nothing is passed over then."""
        ...

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        """These entries again, in order; those acknowledged or gone are left out, and those behind as many as keep
        ``bytes_max`` bytes of buffers alive, one buffer at least. Cancel-safe."""
        ...

    def rewind(self) -> None:
        """Go on from the first unacknowledged entry."""
        ...

    def is_acknowledged(self, position: Position) -> bool: ...

    @property
    def has_partial_batches(self) -> bool:
        """Whether any batch is acknowledged in part: only then ``ack_set`` needs to be asked."""
        ...

    def ack_set(self, position: Position) -> list[int] | None:
        """64-bit words of a batch acknowledged in part (bit set: not acknowledged); None for all else."""
        ...


class DelayCursor(DispatchCursor, Protocol):
    """Of a subscription that keeps entries until their time."""

    def backlog_entries(self) -> int:
        """Unacknowledged entries."""
        ...

    @property
    def index(self) -> IndexLedgers | None:
        """Where an index of entries that wait can be kept; None: nowhere."""
        ...

    def set_aside(self, spans: Iterable[tuple[int, int, int]]) -> None:
        """Leave these entries out of what is read, until all of them were passed: (ledger id, first, behind the last),
        in any order. They replace those of before."""
        ...
