"""Known mistakes, planted into the shipped code for a run: the campaign must find every one of them."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from engine.broker.producer import Producer
from engine.ledger import recovery
from engine.ledger.quorum import AckTracker
from engine.ledger.writer import LedgerWriter
from engine.managed.cursor import Cursor
from engine.managed.rolling import LedgerList
from engine.metadata.memory import MemoryStore
from engine.wire.bookie_commands import EFENCED, EOK, HIGH_PRIORITY
from tests.sim.cluster import Cluster
from tests.sim.disk import FaultFile

Patches = list[tuple[Any, str, Any]]


def ack_before_fsync() -> Patches:
    """The bookie answers adds that are written and not synced."""
    real = FaultFile.fdatasync

    def fdatasync(self: FaultFile) -> None:
        if "/journal/" not in self._path:
            real(self)

    return [(FaultFile, "fdatasync", fdatasync)]


def lease_off() -> Patches:
    """No mistake but a control: brokers trust their session for ever and nobody counts owners. The fence alone must
    keep every promise about data, so a campaign with this finds nothing; the next two take the fence away as well."""

    async def watch_nothing(self: Cluster) -> None:
        return

    return [*session_never_lapses(), (Cluster, "watch", watch_nothing)]


def recovery_without_fence() -> Patches:
    """A new owner recovers the last ledger and leaves its writer able to go on."""
    return [*lease_off(), (recovery, "DO_FENCING", 0), (recovery, "FENCE_URGENT", HIGH_PRIORITY)]


def recovery_believes_one_bookie() -> Patches:
    """Recovery takes one bookie's NO_ENTRY as proof that an entry was never confirmed."""
    real = recovery._Recovery._verdict

    async def verdict(self: Any, entry: int, ops: Any) -> bytes | None:
        kept, self._acks = self._acks, self._quorum
        try:
            return await real(self, entry, ops)
        finally:
            self._acks = kept

    return [(recovery._Recovery, "_verdict", verdict)]


def list_not_recovered() -> Patches:
    """A new owner believes the ledger list and settles nothing."""

    async def recover_nothing(self: LedgerList) -> None:
        return

    return [(LedgerList, "recover", recover_nothing)]


def ack_confirmed_before_persisted() -> Patches:
    """An acknowledgement is confirmed while its cursor's state is in memory only."""

    async def persisted(self: Cursor) -> None:
        return

    return [(Cursor, "persisted", persisted)]


def mark_delete_before_acks() -> Patches:
    """A cursor's stored mark-delete is the highest acknowledgement instead of the lowest hole."""
    real = Cursor._state

    def state(self: Cursor) -> Any:
        found = real(self)
        return replace(found, mark_delete=found.ranges[-1][1]) if found.ranges else found

    return [(Cursor, "_state", state)]


def fenced_broker_continues() -> Patches:
    """A writer takes the refusal of a fenced ledger for success."""
    real = LedgerWriter.add_answered

    def add_answered(self: LedgerWriter, channel: Any, rc: int, first: int, count: int) -> None:
        real(self, channel, EOK if rc == EFENCED else rc, first, count)

    return [*lease_off(), (LedgerWriter, "add_answered", add_answered)]


def receipt_after_one_bookie() -> Patches:
    """Entries count as confirmed when the first bookie has them."""
    real = AckTracker.__init__

    def init(
        self: AckTracker, ensemble: int, write_quorum: int, ack_quorum: int, first: int = 0
    ) -> None:
        real(self, ensemble, write_quorum, 1, first)

    return [(AckTracker, "__init__", init)]


def producer_goes_on_after_failure() -> Patches:
    """After a failed append the broker takes what the same producer had sent behind it."""

    def append_failed(self: Producer, run: Any, start: int, error: Exception) -> None:
        size = sum(run.spans[2 * start + 1 :: 2]) - sum(run.spans[2 * start :: 2])
        self._ended(run.count - start, size)

    return [(Producer, "append_failed", append_failed)]


def session_never_lapses() -> Patches:
    """A broker believes in its session however long the metadata store was silent."""
    return [(MemoryStore, "_silence", lambda self: 0.0)]


PLANTS: dict[str, Callable[[], Patches]] = {
    plant.__name__.replace("_", "-"): plant
    for plant in (
        *(ack_before_fsync, recovery_without_fence, recovery_believes_one_bookie),
        *(list_not_recovered, ack_confirmed_before_persisted, mark_delete_before_acks),
        *(fenced_broker_continues, receipt_after_one_bookie, producer_goes_on_after_failure),
        *(session_never_lapses, lease_off),
    )
}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run the block with the mistake ``name`` in place."""
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in PLANTS[name]() if name else []:
            stack.enter_context(patch.object(owner, attribute, value))
        yield
