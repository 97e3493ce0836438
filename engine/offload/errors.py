"""Errors of tiered storage. All are errors of the ledger whose entries are read or written."""

from enum import StrEnum

from engine.ledger.errors import LedgerError


class StoreTrouble(StrEnum):
    """Kinds of trouble with an object store, as the state of a topic names them."""

    AWAY = "away"
    """No answer from its address."""
    SLOW = "slow"
    """No answer in time, or a demand for fewer requests."""
    FORBIDDEN = "forbidden"
    """Refusal of the credentials of this process, or of a right that they lack."""
    FULL = "full"
    MISSING = "missing"
    """Absence of the bucket or of the object."""
    DAMAGED = "damaged"
    """Bytes that are not those that were written."""
    UNREADABLE = "unreadable"
    """Objects of a format that is not read here."""
    FAILED = "failed"
    """Another failure."""


class OffloadError(LedgerError):
    """Base class of the errors of tiered storage."""

    trouble = StoreTrouble.FAILED


class ObjectStoreError(OffloadError):
    """The object store refused a request, did not answer or failed; the same request may succeed later."""

    retriable = True

    def __init__(self, text: str, trouble: StoreTrouble = StoreTrouble.FAILED) -> None:
        super().__init__(text)
        self.trouble = trouble


class MissingObjectError(OffloadError):
    """The object store has no object of that name."""

    trouble = StoreTrouble.MISSING


class DamagedObjectError(OffloadError):
    """An object is not of the expected format or version, or its bytes are not those that were written."""

    trouble = StoreTrouble.DAMAGED
