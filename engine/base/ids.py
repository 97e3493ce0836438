"""Positions of entries. They are pairs with named fields, so that ledger and entry ids cannot be confused."""

from typing import NamedTuple


class Position(NamedTuple):
    """Position of an entry in a topic, ordered by ledger id, then entry id; entry -1 is before the first entry."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


EARLIEST = Position(-1, -1)
LATEST = Position((1 << 63) - 1, (1 << 63) - 1)
