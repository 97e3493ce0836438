"""Outcomes of storage operations, with the numbers of BookKeeper's V2 protocol. Pure."""

from enum import IntEnum


class Code(IntEnum):
    """The result of a storage operation. NO_ENTRY promises that this bookie never acknowledged the entry; when that is
    uncertain the code is IO."""

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    LIMBO = 107
    """The requested entry may have been lost here. V3 has a status for it; V2 must answer IO, see the wire code."""
