"""Outcome of a storage operation, numbered as BookKeeper's V2 protocol numbers it on the wire. Pure."""

from enum import IntEnum


class Code(IntEnum):
    """NO_ENTRY is a promise that this bookie never acknowledged the entry; when in doubt the answer is IO."""

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
    """This bookie may have lost what is asked for. V3 has a status for it; V2 must answer IO, see the wire code."""
