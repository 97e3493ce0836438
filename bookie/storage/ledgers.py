"""Ledgers of this bookie: who may add, which are fenced, which entry is last.

Decisions only, without disk access. Runs on the event loop (and in recovery). Changed ledgers are handed to the flush
as records (I26).
"""

from bookie.storage.codes import Code
from bookie.storage.index.index import DELETED, FENCED, LIMBO, LedgerRecord
from bookie.storage.journal.journal_format import LAC_BODY_MIN
from bookie.storage.write_cache import Generation, WriteCache
from engine.base.slices import AddRun


class Ledger:
    """The state of one ledger. ``fence_durable``: the fence is in a synced journal group or in the index.

    ``limbo``: this bookie may have lost entries of the ledger and must not deny that one exists.
    """

    __slots__ = (
        "deleted_ms",
        "explicit_lac",
        "fence_durable",
        "fenced",
        "last",
        "ledger_id",
        "limbo",
        "master_key",
    )

    def __init__(self, ledger_id: int, master_key: bytes) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.last = -1
        self.fenced = False
        self.fence_durable = False
        self.limbo = False
        self.deleted_ms = 0
        self.explicit_lac = b""

    def record(self) -> LedgerRecord:
        """Return the durable facts of this ledger."""
        flags = FENCED * self.fenced | LIMBO * self.limbo | DELETED * bool(self.deleted_ms)
        return LedgerRecord(
            self.ledger_id, flags, self.last, self.deleted_ms, self.master_key, self.explicit_lac
        )

    @property
    def written_lac(self) -> int:
        """The last add confirmed that a writer sent explicitly; -1 when none did."""
        return lac_of(self.explicit_lac)


class Ledgers:
    """All ledgers and the write cache in front of them."""

    def __init__(self, cache: WriteCache, records: list[LedgerRecord], limbo: bool = False) -> None:
        self.cache = cache
        self.limbo = limbo
        """True when ledgers unknown here may have existed; they are not denied then."""
        self._ledgers: dict[int, Ledger] = {}
        self._changed: dict[int, Ledger] = {}
        self._deleted = sum(1 for record in records if record.deleted_ms)
        for record in records:
            ledger = Ledger(record.ledger_id, record.master_key)
            ledger.last = record.last
            ledger.fenced = ledger.fence_durable = bool(record.flags & FENCED)
            ledger.limbo = bool(record.flags & LIMBO)
            ledger.deleted_ms = record.deleted_ms
            ledger.explicit_lac = record.explicit_lac
            self._ledgers[record.ledger_id] = ledger

    def __len__(self) -> int:
        return len(self._ledgers)

    @property
    def live(self) -> int:
        """The number of ledgers that are not deleted."""
        return len(self._ledgers) - self._deleted

    def get(self, ledger_id: int) -> Ledger | None:
        return self._ledgers.get(ledger_id)

    def live_ids(self) -> list[int]:
        """Return the ids of ledgers that are not deleted, ascending."""
        return sorted(
            ledger.ledger_id for ledger in self._ledgers.values() if not ledger.deleted_ms
        )

    def add(self, run: AddRun, *, recovery: bool = False) -> Code:
        """Add a run to the cache, or return the reason for the refusal.

        The caller journals the run only after OK: in the opposite order the journal could be trimmed before a flush has
        seen the entries.
        """
        ledger = self._ledgers.get(run.ledger_id)
        if ledger is None:
            # A ledger whose first entry is added now cannot have lost any here; any other ledger may have.
            fresh = run.first == 0 and not recovery
            ledger = self._create(run.ledger_id, run.master_key, limbo=self.limbo and not fresh)
        elif ledger.deleted_ms:  # a tombstone fences as well (B5)
            return Code.FENCED
        elif ledger.master_key != run.master_key:  # (I25)
            return Code.UNAUTHORIZED
        elif ledger.fenced and not recovery:  # (I20, B7)
            return Code.FENCED
        self.cache.add(run)  # without an await, so that no fence can happen in between (I23)
        last = run.below - 1
        if last > ledger.last:
            ledger.last = last
        if run.ledger_id not in self._changed:
            self._changed[run.ledger_id] = ledger
        return Code.OK

    def fence(self, ledger_id: int, master_key: bytes) -> Code:
        """Refuse normal adds from now on.

        After OK the caller journals the fence unless ``fence_durable``, and answers only when it is durable.
        """
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            ledger = self._create(ledger_id, master_key, limbo=self.limbo)
        elif ledger.deleted_ms:
            return Code.NO_LEDGER
        elif ledger.master_key != master_key:  # (I25)
            return Code.UNAUTHORIZED
        if not ledger.fenced:
            ledger.fenced = True
            self._changed[ledger_id] = ledger
        return Code.OK

    def write_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> Code:
        """Store a writer's explicit LAC (at least LAC_BODY_MIN bytes) unless a higher one is known.

        It never goes back, and the bookie stores only values that the writer confirmed (B12). The caller journals it
        after OK. A fence does not matter, as in BookKeeper: what the writer confirmed before stays confirmed.
        """
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            ledger = self._create(ledger_id, master_key, limbo=self.limbo)
        elif ledger.deleted_ms:
            return Code.FENCED
        elif ledger.master_key != master_key:  # (I25)
            return Code.UNAUTHORIZED
        if not ledger.explicit_lac or lac_of(body) > ledger.written_lac:
            ledger.explicit_lac = body
            self._changed[ledger_id] = ledger
        return Code.OK

    def replay_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> None:
        """Apply an explicit LAC from the journal."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or not ledger.deleted_ms:
            self.write_lac(ledger_id, master_key if ledger is None else ledger.master_key, body)

    def replay_adds(self, run: AddRun) -> None:
        """Apply a run from the journal. It was accepted when it was written, so only deletion is checked."""
        ledger = self._ledgers.get(run.ledger_id)
        if ledger is None or not ledger.deleted_ms:
            self.add(run if ledger is None else _with_key(run, ledger.master_key), recovery=True)

    def replay_fence(self, ledger_id: int, master_key: bytes) -> None:
        """Apply a fence from the journal, also to a ledger of which nothing else is known."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or not ledger.deleted_ms:
            self.fence(ledger_id, master_key if ledger is None else ledger.master_key)
            self._ledgers[ledger_id].fence_durable = True

    def enter_limbo(self) -> None:
        """Treat entries as possibly lost: deny none, and refuse adds to known ledgers except those of a recovery."""
        self.limbo = True
        for ledger in self._ledgers.values():
            ledger.limbo = ledger.fenced = ledger.fence_durable = True
            self._changed[ledger.ledger_id] = ledger

    def _create(self, ledger_id: int, master_key: bytes, *, limbo: bool) -> Ledger:
        ledger = self._ledgers[ledger_id] = Ledger(ledger_id, master_key)
        ledger.limbo = limbo
        self._changed[ledger_id] = ledger
        return ledger

    def absent(self, ledger_id: int) -> Code:
        """Return the answer for an entry that is not stored. NO_ENTRY and NO_LEDGER are promises (I21), hence LIMBO in
        limbo."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            return Code.LIMBO if self.limbo else Code.NO_LEDGER
        if ledger.deleted_ms:
            return Code.NO_LEDGER
        return Code.LIMBO if ledger.limbo else Code.NO_ENTRY

    def delete(self, ledger_id: int, now_ms: int) -> LedgerRecord | None:
        """Mark a ledger deleted and return its tombstone; None when there is nothing to delete."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or ledger.deleted_ms:
            return None
        ledger.deleted_ms = now_ms
        self._deleted += 1
        ledger.explicit_lac = b""
        self._changed.pop(ledger_id, None)
        self.cache.forget(ledger_id)
        return ledger.record()

    def forget_deleted(self, before_ms: int) -> list[int]:
        """Drop tombstones older than ``before_ms`` and return their ids, ascending."""
        expired = sorted(
            ledger.ledger_id
            for ledger in self._ledgers.values()
            if 0 < ledger.deleted_ms < before_ms
        )
        for ledger_id in expired:
            del self._ledgers[ledger_id]
        self._deleted -= len(expired)
        return expired

    @property
    def changed(self) -> bool:
        """True when there is anything to flush."""
        return bool(self._changed) or bool(self.cache.active.ledgers)

    def swap(self) -> tuple[Generation, list[LedgerRecord]]:
        """Begin a new generation and return what is to be flushed.

        Sample the journal's mark before, without an await in between (I26).
        """
        changed, self._changed = self._changed, {}
        return self.cache.swap(), [ledger.record() for ledger in changed.values()]


def lac_of(body: bytes) -> int:
    """Return the entry id in an explicit LAC body (ledger id i64, entry id i64, digest); -1 for an empty one."""
    return int.from_bytes(body[8:LAC_BODY_MIN], "big", signed=True) if body else -1


def _with_key(run: AddRun, master_key: bytes) -> AddRun:
    run.master_key = master_key
    return run
