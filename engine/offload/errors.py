"""Errors of tiered storage. All are errors of the ledger whose entries are read or written."""

from engine.ledger.errors import LedgerError


class OffloadError(LedgerError):
    """Base class of the errors of tiered storage."""


class ObjectStoreError(OffloadError):
    """The object store refused a request, did not answer or failed; the same request may succeed later."""

    retriable = True


class MissingObjectError(OffloadError):
    """The object store has no object of that name."""


class DamagedObjectError(OffloadError):
    """An object is not of the expected format or version, or its bytes are not those that were written."""
