"""Mistakes that the simulator found in the shipped code. Each plant reverts one fix."""

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
from engine.managed.stored.removal import Deletion
from engine.managed.writing.appender import Appender
from engine.metadata.session_store import EXPIRE_FRACTION, SessionStore
from engine.metadata.store import NoNodeError
from engine.net.routing import Router
from engine.ownership import owner
from tests.sim.plants.planting import Patches


class _Never(Exception):
    """Exception that no code raises: a handler for it handles nothing."""


def failed_ledger_used_for_ever() -> Patches:
    """Use a ledger that fails while it is added to the topic's list: every append to it fails."""
    return [(LedgerWriter, "error", None)]


def ownership_check_dies_of_silence() -> Patches:
    """End a check of ownership when the store does not answer, and do not repeat it."""
    return [(owner, "StoreUnavailableError", _Never), (owner, "SessionExpiredError", _Never)]


def unload_forgets_a_lost_answer() -> Patches:
    """Serve a bundle again, beside the next owner, after the answer to its release was lost."""

    async def give_up(self: owner.BundleOwnership, bundle: Any) -> None:
        del self._leaving[bundle]

    return [(owner.BundleOwnership, "_give_up", give_up)]


def session_timer_spins() -> Patches:
    """Loop without progress of time in the metadata session's timer, just before the session has to be given up."""

    def until_expiry(self: SessionStore) -> float:
        remaining_s = self._proof + EXPIRE_FRACTION * self._timeout_s - self._loop.time()
        return remaining_s + 0.001 if remaining_s > -0.001 else self._timeout_s

    return [(SessionStore, "_until_expiry", until_expiry)]


def trimmed_before_cursors_are_known() -> Patches:
    """Trim all ledgers, with unread messages, when a ledger fails while the topic's cursors are being loaded."""
    real = CursorSet.load

    async def load(self: Any, *arguments: Any) -> None:
        self._trimmer.begin(self.consumed, self.trimmed)
        await real(self, *arguments)

    return [(CursorSet, "load", load)]


def first_dead_consumer_keeps_the_others() -> Patches:
    """Read from the dead cursor of a lost topic when its first consumer is detached: the others are never
    disconnected."""
    return [
        (source, "ManagedLedgerFencedError", _Never),
        (source, "ManagedLedgerClosedError", _Never),
    ]


def failed_member_sits_twice() -> Patches:
    """Replace a failed member of an ensemble with another failed member that may be used again."""
    return [(choice, "own_positions", lambda chosen, ensemble: chosen)]


def collected_log_is_missed() -> Patches:
    """Look up the place of the last log, which was collected meanwhile, in a flush that cannot begin one on a full
    disk."""
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
    """Create a new partition without the durable subscriptions that the others have."""

    async def no_subscriptions(*_: Any) -> dict[str, dict[str, str]]:
        return {}

    return [(partitions, "_subscriptions", no_subscriptions)]


def deletion_in_doubt_leaves_a_shell() -> Patches:
    """Keep a subscription whose deletion was not answered in memory, where it can no longer store anything."""

    async def delete(self: Any, name: str) -> None:
        cursor = self.by_name.get(name)
        if cursor is None:
            raise CursorNotFoundError(name)
        await cursor.delete()
        del self.by_name[name]

    return [(CursorSet, "delete", delete)]


def partial_acknowledgements_wake_nobody() -> Patches:
    """Do not continue a subscription at its limit when parts of batches are acknowledged."""

    def acknowledged_partly(self: Any, consumer: Any, position: Any, left: int) -> None:
        for holder in self.consumers:
            holder.pending.lower(*position, left)
        freed = [holder.unblock() for holder in self.consumers]
        if any(freed):
            self.wake()

    return [(SharingDispatcher, "acknowledged_partly", acknowledged_partly)]


def deleted_topic_leaks_its_ledgers() -> Patches:
    """Delete the node that lists a topic's ledgers before them: an interrupted deletion is never finished."""

    async def finish(self: Any) -> None:
        self._children = await self._store.children(self._node.path)
        await self._remove_cursors()
        await self._node.delete()
        for ledger_id in self._record.doomed:
            await self._ledgers.delete(ledger_id)
        if self._forget is not None:
            await self._forget()

    return [(Deletion, "finish", finish)]


def closed_subscription_is_given_out() -> Patches:
    """Return a subscription that is being deleted to a SUBSCRIBE again and again: the broker does not progress."""
    return [(Subscription, "closed", False)]


def handover_outlives_its_consumer() -> Patches:
    """Set the cursor back for a consumer that has left, under the consumers that attached after a reset."""

    real = SingleDispatcher._end_handover

    def end(self: Any) -> None:
        if self._active is not None:
            real(self)

    return [(SingleDispatcher, "_end_handover", end)]


def recovered_entries_wake_nobody() -> Patches:
    """Read the entries that the recovery of a failed ledger found at the next append only."""

    async def settled(self: Any, closing: Any) -> Any:
        return await closing

    return [(Appender, "_settled", settled)]


def cookie_missed_by_a_server_that_is_behind() -> Patches:
    """Believe a metadata server that has not received the bookie's cookie yet, and give up the disks."""
    real = opening.check_cookie

    async def check_cookie(store: Any, *rest: Any) -> bool:
        return await real(_Forgetful(store), *rest)

    return [(opening, "check_cookie", check_cookie)]


class _Forgetful:
    """Store whose ``exists`` is as old as ``get``."""

    def __init__(self, store: Any) -> None:
        self.get = store.get

    async def exists(self, path: str) -> Any:
        try:
            return await self.get(path)
        except NoNodeError:
            return None


def refused_consumer_is_stranded() -> Patches:
    """Keep the connection of a C++ client whose SUBSCRIBE is refused temporarily: the client waits on it for ever."""
    real = Router.answer_later

    def answer_later(self: Router, answer: Any, request_id: int, again: bytes = b"") -> None:
        real(self, answer, request_id)

    return [(Router, "answer_later", answer_later)]


def empty_change_is_confirmed_at_once() -> Patches:
    """Answer a confirmed change that finds everything acknowledged before the acknowledgements are durable."""
    real = Cursor.move

    async def move(self: Cursor, effect: Any, change: Any) -> None:
        if not effect.nothing or self.last_change is not None:
            await real(self, effect, change)

    return [(Cursor, "move", move)]
