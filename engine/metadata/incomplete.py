"""Marks of a metadata store that an interrupted copy or restore left incomplete: no server may use it (K3)."""

from engine.base.errors import MagnetarError
from engine.metadata.store import MetadataStore

COPYING = "/magnetar-copy"
"""Node of a store into which another one is being copied; its value is the name of the source."""
RESTORING = "/magnetar-restore"
"""Node of a store into which a backup is being restored; its value is the backup's id."""


class IncompleteStoreError(MagnetarError):
    """The store has a mark. The text is one line for the operator, with the remedy."""


async def check_complete(store: MetadataStore) -> None:
    """Raise IncompleteStoreError when the store has a mark, and the store's errors."""
    (copying, restoring), _ = await store.get_all([COPYING, RESTORING])
    if copying is not None:
        raise IncompleteStoreError(
            f"the metadata store holds an interrupted copy of {copying[0].decode(errors='replace')}: complete it with"
            " magnetar metadata copy"
        )
    if restoring is not None:
        raise IncompleteStoreError(
            "the metadata store holds an interrupted restore of backup"
            f" {restoring[0].decode(errors='replace')}: complete it with magnetar restore"
        )
