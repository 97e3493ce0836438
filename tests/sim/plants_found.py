"""Mistakes that the simulator once found in the shipped code, made again: each takes one fix back."""

from typing import Any

from bookie.storage.entry_log import EntryLogWriter
from engine.broker import source
from engine.broker.session import Session
from engine.ledger import bookies
from engine.ledger.writer import LedgerWriter
from engine.managed.topic_cursors import TopicCursors
from engine.metadata.session import EXPIRE_FRACTION, SessionStore
from engine.ownership import owner
from tests.sim.planting import Patches


class _Never(Exception):
    """Raised by nobody: a handler for it handles nothing."""


def failed_ledger_used_for_ever() -> Patches:
    """A ledger that fails while it enters the topic's list is used: every append to it fails."""
    return [(LedgerWriter, "error", None)]


def ownership_check_dies_of_silence() -> Patches:
    """A check of ownership dies of a store that does not answer, and nobody looks again."""
    return [(owner, "StoreUnavailableError", _Never), (owner, "SessionExpiredError", _Never)]


def unload_forgets_a_lost_answer() -> Patches:
    """The answer to giving a bundle up was lost: the broker serves it again, beside the next owner."""

    async def give_up(self: owner.BundleOwnership, bundle: Any) -> None:
        del self._leaving[bundle]

    return [(owner.BundleOwnership, "_give_up", give_up)]


def session_timer_spins() -> Patches:
    """The metadata session's timer spins without time passing, just before the session has to be given up."""

    def until_expiry(self: SessionStore) -> float:
        left = self._proof + EXPIRE_FRACTION * self._timeout_s - self._loop.time()
        return left + 0.001 if left > -0.001 else self._timeout_s

    return [(SessionStore, "_until_expiry", until_expiry)]


def trimmed_before_cursors_are_known() -> Patches:
    """A ledger fails while the topic's cursors are being loaded: all ledgers are trimmed, with unread messages."""
    real = TopicCursors.load

    async def load(self: Any) -> None:
        self._owner._cursors_known = True
        await real(self)

    return [(TopicCursors, "load", load)]


def first_dead_consumer_keeps_the_others() -> Patches:
    """Detaching the first consumer of a lost topic reads from its dead cursor: the others are never sent away."""
    return [
        (source, "ManagedLedgerFencedError", _Never),
        (source, "ManagedLedgerClosedError", _Never),
    ]


def failed_member_sits_twice() -> Patches:
    """Of several failed members of an ensemble one that may sit again takes the seat of another."""
    return [(bookies, "own_seats", lambda chosen, ensemble: chosen)]


def collected_log_is_missed() -> Patches:
    """A flush that can begin no log on a full disk asks where its last one lies, which was collected meanwhile."""
    real = EntryLogWriter.append

    def append(self: Any, blocks: Any) -> Any:
        try:
            return real(self, blocks)
        except OSError:
            if self.log_id:
                self._logs.directory(self.log_id)
            raise

    return [(EntryLogWriter, "append", append)]


def refused_consumer_is_stranded() -> Patches:
    """A C++ client whose SUBSCRIBE is refused is not sent away, and waits on its connection for ever."""
    real = Session._start

    def start(self: Session, answer: Any, request_id: int, again: bytes = b"") -> None:
        real(self, answer, request_id)

    return [(Session, "_start", start)]
