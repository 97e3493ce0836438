"""Errors of the ledger client. ``code`` is BookKeeper's client code for the same thing."""

from engine.base.errors import MagnetarError


class LedgerError(MagnetarError):
    """Root of the family."""

    code = -999


class NotEnoughBookiesError(LedgerError):
    """Fewer usable bookies than the ensemble or the ack quorum needs."""

    retriable = True
    code = -6


class NoSuchLedgerError(LedgerError):
    """The ledger has no metadata: never created, or deleted."""

    code = -25


class LedgerExistsError(LedgerError):
    """The ledger id asked for is taken."""

    code = -20


class LedgerClosedError(LedgerError):
    """The ledger takes no more entries."""

    code = -11


class LedgerFencedError(LedgerError):
    """Somebody else recovers or recovered the ledger: this writer is dead for good."""

    code = -101


class LedgerRecoveryError(LedgerError):
    """Recovery could not reach a verdict; the ledger stays as it is and may be recovered later."""

    retriable = True
    code = -10


class UnauthorizedError(LedgerError):
    """The password does not fit the ledger."""

    code = -102


class NoSuchEntryError(LedgerError):
    """Every replica answered that it does not hold the entry."""

    code = -13


class ReadError(LedgerError):
    """No replica gave a valid copy and at least one could not say: the entry may exist."""

    retriable = True
    code = -1


class CorruptEntryError(ReadError):
    """Every replica answered, none has an intact copy and one has a damaged one: lost, unless a copy is repaired."""

    retriable = False
    code = -5


class WriteError(LedgerError):
    """An add was refused for a reason that ends the handle."""

    code = -12


class MetadataFormatError(LedgerError):
    """Stored ledger metadata cannot be read; the message names the field."""

    code = -107
