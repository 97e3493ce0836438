"""Ids of transactions. Pure."""

from typing import NamedTuple


class TxnId(NamedTuple):
    """Id of a transaction. ``most``: its coordinator. ``least``: a counter of that coordinator, which never repeats."""

    most: int
    least: int

    def __str__(self) -> str:
        return f"({self.most},{self.least})"
