"""What dispatch needs of those below it."""

from collections.abc import Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import View


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

    async def replay(self, positions: Sequence[Position]) -> list[View]:
        """These entries again, in order; those acknowledged or gone are left out. Cancel-safe."""
        ...

    def rewind(self) -> None:
        """Go on from the first unacknowledged entry."""
        ...

    def is_acknowledged(self, position: Position) -> bool: ...

    def unacknowledged(self, first: Position, last: Position, count: int) -> list[Position]:
        """The first ``count`` unacknowledged entries from ``first`` to ``last``, both included."""
        ...

    @property
    def has_partial_batches(self) -> bool:
        """Whether any batch is acknowledged in part: only then ``ack_set`` needs to be asked."""
        ...

    def ack_set(self, position: Position) -> list[int] | None:
        """64-bit words of a batch acknowledged in part (bit set: not acknowledged); None for all else."""
        ...
