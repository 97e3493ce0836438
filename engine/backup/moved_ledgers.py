"""Ledgers that are only in tiered storage: a backup names their objects, which stay in their buckets.

A restore makes sure that the objects are there before it writes anything, with the credentials of its environment.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from engine.backup.backup_records import SavedNode
from engine.backup.contents import Contents
from engine.backup.errors import RestoreError
from engine.backup.references import UNREADABLE
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.offload.bucket import Bucket
from engine.offload.errors import DamagedObjectError, OffloadError
from engine.offload.object_names import ObjectName
from engine.offload.object_store import ObjectStores
from engine.offload.reading.object_reader import read_index

AT_ONCE = 16
"""Ledgers of which objects are looked up at the same time."""
NAMED = 3
"""Ledgers that an error names."""
DOMAIN = "persistent"


class MovedLedger(NamedTuple):
    """A ledger that is only in ``bucket``, with the name of its objects; None when its record has none."""

    ledger_id: int
    entries: int
    name: ObjectName | None
    bucket: Bucket


def moved_ledgers(value: bytes) -> list[MovedLedger]:
    """Return the ledgers of a topic that are only in tiered storage; none of one that is being deleted. Raises
    StoredRecordError."""
    record = LogRecord.decode(value)
    if record.deleted:
        return []
    moved = []
    for span in record.ledgers:
        offload = offload_of(span)
        if offload.deleted_from_bookies:
            name = None if offload.attempt is None else ObjectName(offload.attempt, span.ledger_id)
            moved.append(MovedLedger(span.ledger_id, span.entries, name, offload.bucket))
    return moved


async def check_moved(contents: Contents, stores: ObjectStores) -> int:
    """Return how many ledgers of the backup are only in tiered storage, of which each has its objects there.

    The index of each is read, and the last byte of its data. Raises RestoreError, which names what is missing.
    """
    ledgers = [ledger async for ledger in _moved_in(contents)]
    problems: list[str] = []
    for start in range(0, len(ledgers), AT_ONCE):
        checks = (_problem(stores, ledger) for ledger in ledgers[start : start + AT_ONCE])
        problems += [problem for problem in await asyncio.gather(*checks) if problem]
    if problems:
        raise RestoreError(
            f"{len(problems)} of {len(ledgers)} ledgers that are only in tiered storage cannot be read there: "
            f"{'; '.join(problems[:NAMED])}. magnetar restore --without-objects restores them as they are"
        )
    return len(ledgers)


async def _moved_in(contents: Contents) -> AsyncIterator[MovedLedger]:
    async for record in contents.records():
        if not isinstance(record, SavedNode) or not record.value or not _is_topic(record.path):
            continue
        try:
            for ledger in moved_ledgers(record.value):
                yield ledger
        except UNREADABLE:
            # The backup has it as it was; the list of what is missing names it.
            continue


def _is_topic(path: str) -> bool:
    """Return whether a node is a topic: tenant, namespace, domain and topic, or with a cluster before the namespace."""
    parts = path.removeprefix(f"{paths.MANAGED_LEDGERS}/").split("/")
    if not path.startswith(f"{paths.MANAGED_LEDGERS}/"):
        return False
    return (len(parts) == 4 and parts[2] == DOMAIN) or (
        len(parts) == 5 and parts[2] != DOMAIN and parts[3] == DOMAIN
    )


async def _problem(stores: ObjectStores, ledger: MovedLedger) -> str:
    """Return why a ledger cannot be read from its bucket; empty when it can."""
    label = f"ledger {ledger.ledger_id} ({ledger.bucket})"
    if ledger.name is None:
        return f"{label}: its record names no object that is read here"
    try:
        store = stores.open(ledger.bucket)
        index = await read_index(store, ledger.name)
        if index.metadata.last_entry != ledger.entries - 1:
            raise DamagedObjectError(
                f"its index ends with entry {index.metadata.last_entry}, not {ledger.entries - 1}"
            )
        end = index.data_bytes
        if await store.get_ranges(ledger.name.data_key, (end - 1, end)) == [b""]:
            raise DamagedObjectError(f"its data has fewer than {end} bytes")
    except OffloadError as error:
        return f"{label}: {error}"
    return ""
