"""The record of the last changes of bundles that no leader has asked for, ``/loadbalance/changes``: for people only.

The owner that moved or split a bundle adds to it afterwards. Nothing is decided by it: an entry that cannot be written
is missing, and the change itself is logged.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.records import Document, RecordFormatError, decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update

log = logging.getLogger(__name__)

CHANGES_MAX = 300
"""Changes in the record, about 100 KB."""
OPERATOR, DRAIN, SPLIT = "operator", "drain", "split"
BALANCE = "balance"
"""Kind of the moves that a leader has asked for, which have a record of their own."""


class BundleChange(NamedTuple):
    """A move of a bundle, or a split of one, which has no ``destination``. ``at_ms``: epoch milliseconds."""

    kind: str
    bundle: str
    source: str
    destination: str
    reason: str
    result: str
    at_ms: int

    def document(self) -> Document:
        """Return the stored form."""
        return {
            "kind": self.kind,
            "bundle": self.bundle,
            "source": self.source,
            "destination": self.destination,
            "reason": self.reason,
            "atMs": self.at_ms,
            "result": self.result,
        }


def _decode(value: bytes) -> list[BundleChange]:
    """Return the stored changes, oldest first; none of an unreadable record."""
    try:
        return [
            BundleChange(
                str(stored["kind"]),
                str(stored["bundle"]),
                str(stored["source"]),
                str(stored["destination"]),
                str(stored.get("reason") or ""),
                str(stored.get("result") or ""),
                int(stored["atMs"]),
            )
            for stored in decode_json(value, "changes of bundles").get("changes") or ()
        ]
    except (KeyError, TypeError, AttributeError, ValueError, RecordFormatError) as error:
        log.warning("changes of bundles cannot be read: %r", error)
        return []


async def last_changes(store: MetadataStore) -> list[BundleChange]:
    """Return the stored changes, oldest first. Raises the store's errors."""
    try:
        return _decode((await store.get(paths.LOADBALANCE_CHANGES))[0])
    except NoNodeError:
        return []


async def record_changes(store: MetadataStore, changes: Sequence[BundleChange]) -> None:
    """Add changes to the record; a failure is logged. Cancel-safe."""
    if not changes:
        return

    def encode(value: bytes) -> bytes:
        kept = [*_decode(value), *changes][-CHANGES_MAX:]
        return encode_json({"changes": [change.document() for change in kept]})

    try:
        await update(store, paths.LOADBALANCE_CHANGES, encode, create=lambda: encode(b""))
    except MagnetarError as error:
        log.warning("%d changes of bundles are not recorded: %s", len(changes), error)
