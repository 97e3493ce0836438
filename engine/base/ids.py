"""Positions of entries: a pair with names, so that a ledger id cannot stand where an entry id is due."""

from typing import NamedTuple


class Position(NamedTuple):
    """Place of an entry in a topic. Orders by ledger id, then entry id; entry -1 is "before the first"."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


EARLIEST = Position(-1, -1)
LATEST = Position((1 << 63) - 1, (1 << 63) - 1)
