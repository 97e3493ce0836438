"""Errors of managed ledgers."""

from engine.base.errors import MagnetarError, MisuseError


class ManagedLedgerError(MagnetarError):
    """Root of the family."""


class ManagedLedgerFencedError(ManagedLedgerError):
    """Somebody else opened the managed ledger: this object is dead for good. Unload the topic and look it up again."""


class ManagedLedgerClosedError(ManagedLedgerError):
    """The managed ledger was closed here. Open it again."""

    retriable = True


class ManagedLedgerTerminatedError(ManagedLedgerError):
    """The topic is sealed: it takes no more entries."""


class ManagedLedgerNotFoundError(ManagedLedgerError):
    """There is no managed ledger of this name."""


class ManagedLedgerLoadError(ManagedLedgerError):
    """A managed ledger could not be opened in time; the message names what it was waiting for. Try again."""

    retriable = True


class LedgerIdReusedError(ManagedLedgerError):
    """The metadata store gave a new ledger an id that is not above those this topic has used. Nothing was written."""


class CursorUnreadableError(ManagedLedgerError):
    """The storage that holds a cursor's acknowledgements does not answer. The topic works; try the cursor again."""

    retriable = True


class CursorNotFoundError(ManagedLedgerError):
    """There is no cursor of this name."""


class AppendFailedError(ManagedLedgerError):
    """An append was refused or its outcome is unknown; the publisher sends again over a fresh producer."""

    retriable = True


class AppendQueueFullError(AppendFailedError):
    """More appends wait for a new ledger than the bound allows."""


class CursorStateTooLargeError(ManagedLedgerError):
    """A cursor's acknowledgements are too scattered to be stored. They are kept; acknowledge the oldest messages."""


class RecordTooLargeError(ManagedLedgerError):
    """A record is larger than a node of the metadata store takes. Nothing was written; what is stored stays."""


class InvalidPropertyError(ManagedLedgerError):
    """A property has a name that is reserved for the broker, or all together take too many bytes."""


class InvalidPositionError(ManagedLedgerError):
    """A position lies behind the last entry."""


class AckSetTooLongError(InvalidPositionError):
    """An acknowledgement of part of a batch names more messages than the entry holds; the message says how many."""


class StoredRecordError(ManagedLedgerError):
    """A stored record cannot be read; the message names record and field."""


class CursorMisuseError(MisuseError):
    """A cursor was used in a way its rules forbid, such as two reads at once."""
