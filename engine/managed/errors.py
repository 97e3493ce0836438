"""Errors of managed ledgers."""

from engine.base.errors import MagnetarError, MisuseError
from engine.ledger.errors import LedgerError
from engine.offload.errors import OffloadError, StoreTrouble


class ManagedLedgerError(MagnetarError):
    """The base class of these errors."""


class ManagedLedgerFencedError(ManagedLedgerError):
    """The managed ledger was opened by another owner, and this object cannot be used again. Unload the topic and look
    it up again."""


class ManagedLedgerClosedError(ManagedLedgerError):
    """The managed ledger was closed here. It can be opened again."""

    retriable = True


class ManagedLedgerTerminatedError(ManagedLedgerError):
    """The topic is terminated and accepts no more entries."""


class ManagedLedgerNotFoundError(ManagedLedgerError):
    """No managed ledger of this name exists."""


class ManagedLedgerLoadError(ManagedLedgerError):
    """A managed ledger was not opened in time; the message names the step that did not end. Retriable."""

    retriable = True


class ShadowTopicError(ManagedLedgerError):
    """The log is that of a shadow topic, whose entries are another topic's: only there they can be changed."""


class LedgerIdReusedError(ManagedLedgerError):
    """The metadata store assigned a new ledger an id that is not above those this topic has used. Nothing was
    written."""


class OffloadRunningError(ManagedLedgerError):
    """Ledgers of the topic are being moved to tiered storage already."""


class OffloadedError(LedgerError):
    """The entries of a ledger are only in tiered storage, where another broker moved them, and cannot be read from
    there."""


class UnreadableLedgerError(OffloadError):
    """The entries of a ledger are only in objects of several ledgers in tiered storage, which another implementation
    wrote and which are not read here."""

    trouble = StoreTrouble.UNREADABLE


class CursorUnreadableError(ManagedLedgerError):
    """The storage that holds a cursor's acknowledgements does not answer. The topic works; the cursor can be tried
    again."""

    retriable = True


class CursorNotFoundError(ManagedLedgerError):
    """No cursor of this name exists."""


class AppendFailedError(ManagedLedgerError):
    """An append was refused or its outcome is unknown. The publisher sends again with a new producer."""

    retriable = True


class AppendQueueFullError(AppendFailedError):
    """More appends are waiting for a new ledger than the bound allows."""


class CursorStateTooLargeError(ManagedLedgerError):
    """A cursor's acknowledgements are too scattered to be stored. They stay in memory; acknowledge the oldest
    messages."""


class RecordTooLargeError(ManagedLedgerError):
    """A record is larger than a node of the metadata store may be. Nothing was written; the stored record is
    unchanged."""


class InvalidPropertyError(ManagedLedgerError):
    """A property's name is reserved for the broker, or the properties together have too many bytes."""


class InvalidPositionError(ManagedLedgerError):
    """A position lies behind the last entry or, for a read, at no entry."""


class AckSetTooLongError(InvalidPositionError):
    """An acknowledgement of part of a batch names more messages than the entry holds; the message has the number."""


class StoredRecordError(ManagedLedgerError):
    """A stored record that cannot be decoded; the message names record and field."""


class CursorMisuseError(MisuseError):
    """A call that the rules of a cursor forbid, such as a second read while one is in progress."""
