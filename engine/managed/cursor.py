"""A cursor: where a subscription stands, what it acknowledged, and what it reads next."""

from collections.abc import Iterable, Sequence

from engine.base.ids import Position
from engine.base.slices import View
from engine.managed.stats import CursorStats


class Cursor:
    """Made by ``ManagedLedger.open_cursor``. One reader at a time; acknowledgements at any time.

    Acknowledging never waits: state is persisted lazily, at once when somebody waits in ``persisted``.
    ``mark_delete``: everything up to and with it is acknowledged. ``read_position``: next entry to be read.
    ``properties`` (name -> int) are stored with the state; ``set_property`` changes them.
    """

    name: str
    durable: bool
    cursor_properties: dict[str, str]

    @property
    def mark_delete(self) -> Position:
        raise NotImplementedError

    @property
    def persisted_mark_delete(self) -> Position:
        """The mark-delete position that survives a crash now."""
        raise NotImplementedError

    @property
    def read_position(self) -> Position:
        raise NotImplementedError

    @property
    def properties(self) -> dict[str, int]:
        raise NotImplementedError

    @property
    def blocked(self) -> str | None:
        """Why dispatch is to pause: the acknowledged ranges are near what can be persisted. None: all is well."""
        raise NotImplementedError

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        """Unacknowledged entries from memory, advancing ``read_position``; at least one if any.

        ``[]``: nothing to read until ``ManagedLedger.on_appended``. ``None``: not in memory, use ``read``.
        """
        raise NotImplementedError

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """Like ``read_nowait``, from the bookies where need be; ``[]`` at the end. Cancel-safe: nothing is skipped.

        Raises LedgerError when the entries cannot be read, CursorMisuseError when another read is under way.
        """
        raise NotImplementedError

    async def replay(self, positions: Sequence[Position]) -> list[View]:
        """These entries again, in order of position; acknowledged and vanished ones are left out.

        Does not move ``read_position``. Cancel-safe.
        """
        raise NotImplementedError

    def acknowledge(self, positions: Sequence[Position]) -> None:
        """Acknowledge single entries; idempotent. Positions that do not exist (any more) are ignored."""
        raise NotImplementedError

    def acknowledge_ranges(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Acknowledge ``(ledger_id, first entry, last entry)``, inclusive; else as ``acknowledge``."""
        raise NotImplementedError

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> bool:
        """Acknowledge part of a batch: 64-bit words (signed or not), bit i set = message i is *not* acknowledged.

        Narrows what was acknowledged before. True when the whole entry is acknowledged now.
        """
        raise NotImplementedError

    def acknowledge_cumulative(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Acknowledge everything up to ``position``; with ``ack_set`` only that part of ``position`` itself.

        Raises InvalidPositionError behind the last entry.
        """
        raise NotImplementedError

    def ack_set(self, position: Position) -> list[int] | None:
        """Words of the partly acknowledged batch (bit set = not acknowledged), signed; None when nothing is."""
        raise NotImplementedError

    def is_acknowledged(self, position: Position) -> bool:
        raise NotImplementedError

    async def persisted(self) -> None:
        """Return when all acknowledgements made so far survive a crash. Cancel-safe.

        Raises ManagedLedgerFencedError or ManagedLedgerClosedError; other failures are tried again until they heal.
        """
        raise NotImplementedError

    async def reset(self, position: Position) -> None:
        """Make ``position`` the next entry read and forget acknowledgements from it on; durable before it returns.

        EARLIEST and LATEST work; vanished or future positions go to the nearest valid one.
        """
        raise NotImplementedError

    async def skip(self, entries: int) -> None:
        """Acknowledge the first ``entries`` unacknowledged entries (not messages, as Pulsar); durable after."""
        raise NotImplementedError

    async def clear(self) -> None:
        """Acknowledge everything; durable before it returns."""
        raise NotImplementedError

    def rewind(self) -> None:
        """Read again from the first unacknowledged entry on."""
        raise NotImplementedError

    def set_property(self, name: str, value: int | None) -> None:
        """Set (None: remove) a property; persisted like an acknowledgement."""
        raise NotImplementedError

    async def update_cursor_properties(self, properties: dict[str, str]) -> None:
        """Replace the subscription's properties; durable before it returns."""
        raise NotImplementedError

    def backlog_entries(self) -> int:
        """Unacknowledged entries."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Whether an entry waits at or behind ``read_position``."""
        raise NotImplementedError

    def stats(self) -> CursorStats:
        raise NotImplementedError
