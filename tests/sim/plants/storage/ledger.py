"""Mistakes of the ledger client: quorums, ensemble changes, recovery, compare-and-set."""

from typing import Any

from engine.ledger import metadata_update, recovery
from engine.ledger.quorum import AckTracker
from engine.ledger.writing import writer
from engine.ledger.writing.writer import LedgerWriter
from engine.metadata.store import ANY_VERSION, BadVersionError, Stat
from engine.wire import kernels
from engine.wire.bookie_commands import EFENCED, EOK, HIGH_PRIORITY
from tests.sim.plants.planting import Patches


def recovery_without_fence() -> Patches:
    """Leave the old writer able to continue during recovery."""
    return [(recovery, "DO_FENCING", 0), (recovery, "FENCE_URGENT", HIGH_PRIORITY)]


def recovery_believes_one_bookie() -> Patches:
    """Close after too few NO_ENTRY in recovery: the answer of one bookie proves that an entry was never confirmed."""
    real = recovery._Recovery._verdict

    async def verdict(self: Any, entry: int, ops: Any) -> bytes | None:
        acks, self._acks = self._acks, self._quorum
        try:
            return await real(self, entry, ops)
        finally:
            self._acks = acks

    return [(recovery._Recovery, "_verdict", verdict)]


def recovery_write_back_skipped() -> Patches:
    """Close the ledger over entries that recovery found on a bookie and did not make durable."""

    async def write_back(self: Any, first: int, entries: list[bytes]) -> None:
        self.rewritten += len(entries)

    return [(recovery._Recovery, "_write_back", write_back)]


def fenced_writer_continues() -> Patches:
    """Regard the refusal of a fenced ledger as success."""
    real = LedgerWriter.add_answered

    def add_answered(self: LedgerWriter, channel: Any, rc: int, first: int, count: int) -> None:
        real(self, channel, EOK if rc == EFENCED else rc, first, count)

    return [(LedgerWriter, "add_answered", add_answered)]


def receipt_after_one_bookie() -> Patches:
    """Confirm entries when the first bookie has them."""
    real = AckTracker.__init__

    def init(
        self: AckTracker, ensemble: int, write_quorum: int, ack_quorum: int, first: int = 0
    ) -> None:
        real(self, ensemble, write_quorum, 1, first)

    return [(AckTracker, "__init__", init)]


def answers_of_the_replaced_count() -> Patches:
    """Count answers, not bookies: the answers of a replaced bookie count for its successor."""

    def replace(self: AckTracker, position: int, first: int) -> None:
        return

    return [(AckTracker, "replace", replace)]


def confirmed_during_an_ensemble_change() -> Patches:
    """Confirm entries while metadata may already place them elsewhere."""
    real = LedgerWriter._advance

    def advance(self: LedgerWriter) -> None:
        changing, self._changing = self._changing, False
        try:
            real(self)
        finally:
            self._changing = changing

    return [(LedgerWriter, "_advance", advance)]


def ensemble_change_at_the_wrong_entry() -> Patches:
    """Place the start of the new ensemble one entry behind the first that it receives."""
    real = metadata_update.change_ensemble

    async def change_ensemble(store: Any, ledger_id: int, ours: Any, start: int, *rest: Any) -> Any:
        return await real(store, ledger_id, ours, start + 1, *rest)

    return [(metadata_update, "change_ensemble", change_ensemble)]


def last_confirmed_too_high() -> Patches:
    """Declare the entry before one confirmed, when it was only sent."""
    real = kernels.build_adds

    def build_adds(
        run: Any, start: int, stop: int, ledger_id: int, first: int, lac: int, *rest: Any
    ) -> Any:
        return real(run, start, stop, ledger_id, first, first - 1, *rest)

    return [(writer, "build_adds", build_adds)]


class _Store:
    """Store as seen by a client that does not compare before it sets."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _metadata_through(store_class: type[_Store]) -> Patches:
    real = metadata_update.change

    async def change(store: Any, *rest: Any) -> Any:
        return await real(store_class(store), *rest)

    return [(metadata_update, "change", change)]


def lost_race_taken_for_won() -> Patches:
    """Regard a failed compare-and-set of ledger metadata as success."""

    class Store(_Store):
        async def put(self, path: str, value: bytes, version: int) -> Stat:
            try:
                stored: Stat = await self._store.put(path, value, version)
            except BadVersionError:
                return Stat(version + 1, 0, 0, 0, 0, 0)
            return stored

    return _metadata_through(Store)


def set_without_compare() -> Patches:
    """Overwrite ledger metadata, whatever changes it had since it was read."""

    class Store(_Store):
        async def put(self, path: str, value: bytes, version: int) -> Stat:
            stored: Stat = await self._store.put(path, value, ANY_VERSION)
            return stored

    return _metadata_through(Store)
