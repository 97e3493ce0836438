"""Errors of the ledger client. ``code`` is BookKeeper's client code for the same error."""

from engine.base.errors import MagnetarError


class LedgerError(MagnetarError):
    """Base class of the ledger client's errors."""

    code = -999


class NotEnoughBookiesError(LedgerError):
    """Fewer usable bookies than the ensemble or the ack quorum needs."""

    retriable = True
    code = -6


class UnprovenBookiesError(NotEnoughBookiesError):
    """Bookies that a copy could go to are of an open ledger's last segment, and have no entry of it yet."""


class NoSuchLedgerError(LedgerError):
    """The ledger has no metadata: never created, or deleted."""

    code = -25


class LedgerExistsError(LedgerError):
    """The requested ledger id is in use."""

    code = -20


class LedgerClosedError(LedgerError):
    """The ledger accepts no more entries."""

    code = -11


class LedgerFencedError(LedgerError):
    """Another client recovers or has recovered the ledger; this writer cannot continue."""

    code = -101


class LedgerRecoveryError(LedgerError):
    """Recovery could not determine the last entry; the ledger stays as it is and may be recovered later."""

    retriable = True
    code = -10


class UnauthorizedError(LedgerError):
    """The password is not the ledger's."""

    code = -102


class NoSuchEntryError(LedgerError):
    """Every replica answered that it does not hold the entry."""

    code = -13


class ReadError(LedgerError):
    """No replica returned a valid copy and at least one did not answer or failed: the entry may exist."""

    retriable = True
    code = -1


class CorruptEntryError(ReadError):
    """Every replica answered; none has an intact copy and at least one has a damaged copy. The entry is lost unless a
    copy is repaired."""

    retriable = False
    code = -5


class WriteError(LedgerError):
    """An add or a metadata write failed for a reason that ends the writer."""

    code = -12


class MetadataFormatError(LedgerError):
    """Stored ledger metadata cannot be read; the message names the field."""

    code = -107
