"""Mistakes that the simulator once found in the shipped code, made again: each takes one fix back."""

from typing import Any

from bookie import opening
from bookie.storage.logs.entry_log import EntryLogWriter
from engine.admin import partitions
from engine.broker.dispatch import source
from engine.broker.dispatch.core import SharingDispatcher
from engine.broker.dispatch.single import SingleDispatcher
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.ledger.cluster import choice
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_set import CursorSet
from engine.managed.errors import CursorNotFoundError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.stored.records import LogRecord
from engine.managed.writing.appender import Appender
from engine.metadata import paths
from engine.metadata.session_store import EXPIRE_FRACTION, SessionStore
from engine.metadata.store import NoNodeError
from engine.net.routing import Router
from engine.ownership import owner
from tests.sim.plants.planting import Patches


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
    real = CursorSet.load

    async def load(self: Any, *given: Any) -> None:
        self._trimmer.begin(self.consumed, self.trimmed)
        await real(self, *given)

    return [(CursorSet, "load", load)]


def first_dead_consumer_keeps_the_others() -> Patches:
    """Detaching the first consumer of a lost topic reads from its dead cursor: the others are never sent away."""
    return [
        (source, "ManagedLedgerFencedError", _Never),
        (source, "ManagedLedgerClosedError", _Never),
    ]


def failed_member_sits_twice() -> Patches:
    """Of several failed members of an ensemble one that may sit again takes the seat of another."""
    return [(choice, "own_positions", lambda chosen, ensemble: chosen)]


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


def partitions_grow_without_subscriptions() -> Patches:
    """A new partition has none of the durable subscriptions that the others have."""

    async def nobody(*_: Any) -> dict[str, dict[str, str]]:
        return {}

    return [(partitions, "_subscriptions", nobody)]


def deletion_in_doubt_leaves_a_shell() -> Patches:
    """A subscription whose deletion got no answer stays in memory, and can store nothing any more."""

    async def delete(self: Any, name: str) -> None:
        cursor = self.by_name.get(name)
        if cursor is None:
            raise CursorNotFoundError(name)
        await cursor.delete()
        del self.by_name[name]

    return [(CursorSet, "delete", delete)]


def partial_acknowledgements_wake_nobody() -> Patches:
    """A subscription at its limit does not go on when parts of batches are acknowledged."""

    def acknowledged_partly(self: Any, consumer: Any, position: Any, left: int) -> None:
        for holder in self.consumers:
            holder.pending.lower(*position, left)
        freed = [holder.unblock() for holder in self.consumers]
        if any(freed):
            self.wake()

    return [(SharingDispatcher, "acknowledged_partly", acknowledged_partly)]


def deleted_topic_leaks_its_ledgers() -> Patches:
    """The node that lists a topic's ledgers goes before them: a deletion that is cut off is finished by nobody."""

    async def delete(self: Any, name: str) -> None:
        ledger = self._open.get(name)
        if ledger is not None:
            await ledger.close()
        node = self._shared.node(paths.managed_ledger(name))
        record = LogRecord.decode(await node.read())
        await self._remove_cursors(node)
        await node.delete()
        for one in record.ledgers:
            await self._ledgers.delete(one.ledger_id)

    return [(ManagedLedgerFactory, "delete", delete)]


def closed_subscription_is_given_out() -> Patches:
    """Who subscribes while the subscription is being deleted is given it again and again: the broker stands still."""
    return [(Subscription, "closed", False)]


def handover_outlives_its_consumer() -> Patches:
    """A handover to a consumer that has left sets the cursor back under those who came after a reset."""

    real = SingleDispatcher._end_handover

    def end(self: Any) -> None:
        if self._active is not None:
            real(self)

    return [(SingleDispatcher, "_end_handover", end)]


def recovered_entries_wake_nobody() -> Patches:
    """What the recovery of a failed ledger found is read behind the next append only."""

    async def settled(self: Any, closing: Any) -> Any:
        return await closing

    return [(Appender, "_settled", settled)]


def cookie_missed_by_a_server_that_is_behind() -> Patches:
    """A bookie believes a metadata server that has not heard of its cookie yet, and gives up its disks."""
    real = opening.check_cookie

    async def check_cookie(store: Any, *rest: Any) -> bool:
        return await real(_Forgetful(store), *rest)

    return [(opening, "check_cookie", check_cookie)]


class _Forgetful:
    """A store whose ``exists`` is as old as ``get``."""

    def __init__(self, store: Any) -> None:
        self.get = store.get

    async def exists(self, path: str) -> Any:
        try:
            return await self.get(path)
        except NoNodeError:
            return None


def refused_consumer_is_stranded() -> Patches:
    """A C++ client whose SUBSCRIBE is refused is not sent away, and waits on its connection for ever."""
    real = Router.answer_later

    def answer_later(self: Router, answer: Any, request_id: int, again: bytes = b"") -> None:
        real(self, answer, request_id)

    return [(Router, "answer_later", answer_later)]


def empty_change_is_confirmed_at_once() -> Patches:
    """A confirmed change that finds everything acknowledged is answered before the acknowledgements are durable."""
    real = Cursor.move

    async def move(self: Cursor, effect: Any, change: Any) -> None:
        if not effect.nothing or self.last_change is not None:
            await real(self, effect, change)

    return [(Cursor, "move", move)]
