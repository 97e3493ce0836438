"""Verification of the audit log by its chain of hashes: the first entry that was changed, removed or inserted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import connection

from admin_ui.audit.chain import (
    CHAINED,
    ENTRY,
    HEAD,
    HEAD_COLUMNS,
    LINKS,
    OUTCOME,
    REMOVAL,
    Base,
    ChainedRecord,
    Head,
    outcome_link,
    removal_link,
)
from admin_ui.models import AuditEntry

ENTRIES = AuditEntry._meta.db_table
COLUMNS = ", ".join(CHAINED)
BATCH = 500


class Report(NamedTuple):
    """The result of a verification. ``problem``: a sentence about the first entry or link that does not fit; empty when
    all do. ``seq`` and ``digest``: the last link that fits, to be compared with one that was noted before.
    ``entry_id``: the entry of the problem, if it is stored; else 0."""

    entries: int
    links: int
    seq: int
    digest: str
    removed_id: int
    problem: str = ""
    entry_id: int = 0


class _Link(NamedTuple):
    seq: int
    kind: int
    entry_id: int
    digest: str


class _Broken(Exception):
    """The chain does not fit; the text names the entry or the link. ``entry_id``: the entry if it is stored, else 0."""

    def __init__(self, problem: str, entry_id: int = 0) -> None:
        super().__init__(problem)
        self.entry_id = entry_id


def verify(noted: tuple[int, str] | None = None) -> Report:
    """Verify the whole chain, as it is at one moment, while gateways go on. ``noted``: number and digest of a link that
    an earlier verification has reported. Raises DatabaseError."""
    with _snapshot(), connection.cursor() as cursor:
        head = _head(cursor)
        walk = _Walk(cursor, head, noted)
        try:
            walk.check_links()
            walk.check_entries()
        except _Broken as error:
            return walk.report(str(error), error.entry_id)
        return walk.report()


@contextmanager
def _snapshot() -> Iterator[None]:
    """Read all at one moment, without a lock that delays a gateway."""
    if connection.in_atomic_block:
        yield
        return
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        else:
            cursor.execute("BEGIN")
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


def _head(cursor: Any) -> Head | None:
    cursor.execute(f"SELECT {HEAD_COLUMNS} FROM {HEAD}")
    row = cursor.fetchone()
    return None if row is None else Head(row[0], row[1], Base(*row[2:]))


class _Walk:
    """One pass over the links, then one over the entries."""

    def __init__(self, cursor: Any, head: Head | None, noted: tuple[int, str] | None) -> None:
        self._cursor = cursor
        self._head = head or Head(0, "", Base())
        self._base = self._head.base
        self._noted = noted
        self._last = (self._base.seq, self._base.digest)
        self._chained: set[int] = set()
        self._ended: set[int] = set()
        self._links = self._entries = 0

    def report(self, problem: str = "", entry_id: int = 0) -> Report:
        seq, digest = self._last
        removed_id = self._base.removed_id
        return Report(self._entries, self._links, seq, digest, removed_id, problem, entry_id)

    def check_links(self) -> None:
        """Check that each link follows the one before it and records what its entry says now. Raises _Broken."""
        newest_removal = self._newest_removal()
        for links in self._batches():
            entries = self._entries_of(links)
            for link in links:
                seq, before = self._last
                if link.seq != seq + 1:
                    raise _Broken(f"link {seq + 1} of the chain was removed")
                recorded = self._recorded(link, entries, newest_removal)
                if recorded is not None and recorded.digest(before) != link.digest:
                    raise _changed(link)
                self._last = (link.seq, link.digest)
                self._links += 1
                self._check_noted(link)
        if self._last != (self._head.seq, self._head.digest):
            raise _Broken(f"links behind link {self._last[0]} of the chain were removed or added")
        if self._noted is not None and self._noted[0] > self._last[0]:
            raise _Broken(f"link {self._noted[0]}, which was noted, was removed")

    def _check_noted(self, link: _Link) -> None:
        seq, digest = self._noted or (0, "")
        if link.seq == seq and link.digest != digest:
            raise _Broken(f"link {link.seq} is another than the one that was noted")

    def _newest_removal(self) -> int:
        self._cursor.execute(f"SELECT MAX(seq) FROM {LINKS} WHERE kind = {REMOVAL}")
        newest = self._cursor.fetchone()[0]
        if newest is None and self._base != Base():
            raise _Broken("the record of the last removal of old entries was removed")
        return newest or 0

    def _batches(self) -> Iterator[list[_Link]]:
        after = self._base.seq
        while True:
            self._cursor.execute(
                f"SELECT seq, kind, entry_id, digest FROM {LINKS} WHERE seq > %s ORDER BY seq"
                f" LIMIT {BATCH}",
                [after],
            )
            links = [_Link(*row) for row in self._cursor.fetchall()]
            if not links:
                return
            yield links
            after = links[-1].seq

    def _entries_of(self, links: list[_Link]) -> dict[int, tuple[Any, ...]]:
        keys = sorted({link.entry_id for link in links if link.kind != REMOVAL})
        if not keys:
            return {}
        marks = ",".join(["%s"] * len(keys))
        self._cursor.execute(
            f"SELECT id, status, changes, {COLUMNS} FROM {ENTRIES} WHERE id IN ({marks})",
            keys,
        )
        return {row[0]: row[1:] for row in self._cursor.fetchall()}

    def _recorded(
        self, link: _Link, entries: dict[int, tuple[Any, ...]], newest_removal: int
    ) -> ChainedRecord | None:
        """Return what a link records by what is stored now; None for a link of which nothing is stored any more."""
        if link.kind == REMOVAL:
            return removal_link(self._base) if link.seq == newest_removal else None
        entry = entries.get(link.entry_id)
        if entry is None:
            if link.entry_id > self._base.removed_id:
                raise _Broken(f"entry {link.entry_id} was removed")
            return None
        status, changes, *values = entry
        if link.kind == OUTCOME:
            self._ended.add(link.entry_id)
            return outcome_link(link.entry_id, status, changes)
        self._chained.add(link.entry_id)
        return ChainedRecord(ENTRY, link.entry_id, tuple(values))

    def check_entries(self) -> None:
        """Check that no entry and no outcome is stored without its link. Raises _Broken."""
        after = self._base.removed_id
        while True:
            self._cursor.execute(
                f"SELECT id, status, changes FROM {ENTRIES} WHERE id > %s ORDER BY id LIMIT {BATCH}",
                [after],
            )
            rows = self._cursor.fetchall()
            if not rows:
                return
            for key, status, changes in rows:
                if key not in self._chained:
                    raise _Broken(f"entry {key} was inserted", key)
                if key not in self._ended and (status is not None or changes):
                    raise _Broken(f"the outcome of entry {key} was inserted", key)
                self._entries += 1
            after = rows[-1][0]


def _changed(link: _Link) -> _Broken:
    if link.kind == REMOVAL:
        return _Broken("the record of the last removal of old entries was changed")
    what = "the outcome of entry" if link.kind == OUTCOME else "entry"
    problem = f"{what} {link.entry_id} or link {link.seq} of the chain was changed"
    return _Broken(problem, link.entry_id)
