"""The chain of hashes over the audit log, in the order of the commits of all gateways that share a database.

Each entry, each outcome and each removal of old entries is a link. Its digest is over what it records and the digest of
the link before it, so that nothing can be changed, removed or inserted behind the gateways' back without a digest that
no longer fits. Links are written in the transaction of what they record. The only row of ``AuditHead`` holds the last
link; it is locked from its read to the commit, and so orders the gateways.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connection

from admin_ui.models import AuditEntry, AuditHead, AuditLink

LINKS = AuditLink._meta.db_table
HEAD = AuditHead._meta.db_table
HEAD_COLUMNS = "seq, digest, base_seq, base_digest, removed_id"
ENTRY, OUTCOME, REMOVAL = 0, 1, 2
"""Kinds of links."""
GENESIS = ""
"""Digest before the first link."""
CHAINED = (
    *("at_ms", "actor", "address", "method", "target", "request_id", "given"),
    *("role", "operation", "cluster", "tenant", "namespace", "topic"),
)
"""Fields of an entry that are written once; its status and changes are its outcome."""


class ChainedRecord(NamedTuple):
    """The record of a link; ``values`` are those that its digest covers, besides the key of the entry."""

    kind: int
    entry_id: int
    values: tuple[Any, ...]

    def digest(self, before: str) -> str:
        """Return the digest of the link behind the one with the digest ``before``."""
        text = json.dumps([before, self.kind, self.entry_id, *self.values], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class Base(NamedTuple):
    """The start of the part of the chain that is kept: the link before it, and the last entry that was removed."""

    seq: int = 0
    digest: str = GENESIS
    removed_id: int = 0


class Head(NamedTuple):
    """The last link of the chain, and its base."""

    seq: int
    digest: str
    base: Base


def entry_link(entry: AuditEntry) -> ChainedRecord:
    """Return what the link of a new entry records; it has its key."""
    return ChainedRecord(ENTRY, entry.pk, tuple(getattr(entry, name) for name in CHAINED))


def outcome_link(entry_id: int, status: int, changes: str) -> ChainedRecord:
    """Return what the link of an outcome records."""
    return ChainedRecord(OUTCOME, entry_id, (status, changes))


def removal_link(base: Base) -> ChainedRecord:
    """Return what the link of a removal records."""
    return ChainedRecord(REMOVAL, base.removed_id, (base.seq, base.digest))


def _head_row(cursor: Any) -> Any:
    # SQLite locks the whole database when the transaction begins, and has no such clause.
    if connection.features.has_select_for_update:
        cursor.execute(f"SELECT {HEAD_COLUMNS} FROM {HEAD} WHERE id = 1 FOR UPDATE")
    else:
        cursor.execute(f"SELECT {HEAD_COLUMNS} FROM {HEAD} WHERE id = 1")
    return cursor.fetchone()


def locked_head(cursor: Any) -> Head:
    """Return the head of the chain, inside a transaction until whose end no other gateway adds a link."""
    row = _head_row(cursor)
    if row is None:
        cursor.execute(
            f"INSERT INTO {HEAD} (id, seq, digest, base_seq, base_digest, removed_id)"
            f" SELECT 1, COALESCE(MAX(seq), 0), '', 0, '', 0 FROM {LINKS} WHERE true"
            " ON CONFLICT DO NOTHING"
        )
        row = _head_row(cursor)
    seq, digest, *base = row
    return Head(seq, digest, Base(*base))


def add_links(cursor: Any, head: Head, recorded: Iterable[ChainedRecord]) -> None:
    """Add links behind the head, in the transaction of what they record."""
    seq, digest = head.seq, head.digest
    rows = []
    for link in recorded:
        seq, digest = seq + 1, link.digest(digest)
        rows.append((seq, link.kind, link.entry_id, digest))
    if not rows:
        return
    cursor.executemany(
        f"INSERT INTO {LINKS} (seq, kind, entry_id, digest) VALUES (%s, %s, %s, %s)", rows
    )
    base = head.base
    cursor.execute(
        f"UPDATE {HEAD} SET seq = %s, digest = %s, base_seq = %s, base_digest = %s,"
        " removed_id = %s WHERE id = 1",
        [seq, digest, *base],
    )


def remove_links(cursor: Any, removed_id: int) -> None:
    """Remove the links before that of the first entry behind ``removed_id``, and record that entries up to it were
    removed. Links of removed entries that stand behind it stay."""
    head = locked_head(cursor)
    cursor.execute(
        f"SELECT seq FROM {LINKS} WHERE kind = {ENTRY} AND entry_id > %s ORDER BY seq LIMIT 1",
        [removed_id],
    )
    row = cursor.fetchone()
    base_seq = head.seq if row is None else row[0] - 1
    cursor.execute(f"SELECT digest FROM {LINKS} WHERE seq = %s", [base_seq])
    row = cursor.fetchone()
    base = Base(base_seq, row[0] if row else head.base.digest, removed_id)
    cursor.execute(f"DELETE FROM {LINKS} WHERE seq <= %s", [base_seq])
    add_links(cursor, head._replace(base=base), [removal_link(base)])
