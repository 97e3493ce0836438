"""All ledgers of a cluster, read from their metadata a batch at a time."""

import logging
from collections.abc import AsyncIterator

from engine.ledger.errors import MetadataFormatError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.metadata_update import decoded
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError

log = logging.getLogger(__name__)

BATCH = 64
Stored = list[tuple[int, LedgerMetadata]]


async def ledgers(store: MetadataStore, unread: list[int] | None = None) -> AsyncIterator[Stored]:
    """Yield the stored ledgers in batches, each as it was at one moment. Those whose metadata cannot be read are logged
    and left out, and added to ``unread``. Raises the store's errors."""
    async for parent in _directories(store, paths.LEDGERS):
        names = [name for name in await children(store, parent) if name.startswith("L")]
        for i in range(0, len(names), BATCH):
            part = [f"{parent}/{name}" for name in names[i : i + BATCH]]
            nodes, _ = await store.get_all(part)
            batch: Stored = []
            for path, node in zip(part, nodes, strict=True):
                ledger_id = paths.ledger_id(path)
                if node is None or ledger_id is None:
                    continue
                try:
                    batch.append((ledger_id, decoded(node)))
                except MetadataFormatError as error:
                    log.warning("metadata of a ledger is not read path=%s reason=%s", path, error)
                    if unread is not None:
                        unread.append(ledger_id)
            if batch:
                yield batch


async def _directories(store: MetadataStore, path: str) -> AsyncIterator[str]:
    """Yield the directories below ``path`` that may have ledgers."""
    for name in await children(store, path):
        if name.isdigit():
            child = f"{path}/{name}"
            yield child
            async for directory in _directories(store, child):
                yield directory


async def children(store: MetadataStore, path: str) -> list[str]:
    """Return the names of a node's children; none when the node is missing."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []
