"""Which paths a cluster keeps its ledgers under: BookKeeper's znode ``LAYOUT`` says it, and we know one layout only.

Value: format version, LF, name of BookKeeper's class, ``:``, its version. Pulsar's own metadata driver writes none;
then it is the hierarchical one. With another layout every ledger would seem to be deleted.
"""

from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
"""What a first bookie writes."""

_KNOWN = ("HierarchicalLedgerManagerFactory", "hierarchical")  # the latter in format version 1


class LayoutError(MagnetarError):
    """The cluster's ledgers lie where we do not look."""


async def check_layout(store: MetadataStore) -> None:
    """Raises LayoutError, or the store's errors."""
    try:
        value, _ = await store.get(paths.LAYOUT)
    except NoNodeError:
        return
    lines = value.decode("ascii", "replace").strip().split("\n")
    name, _, version = lines[1].rpartition(":") if len(lines) == 2 else ("", "", "")
    if lines[0] not in ("1", "2") or name.rpartition(".")[2] not in _KNOWN or version != "1":
        raise LayoutError(
            f"{paths.LAYOUT} is {value!r}: only BookKeeper's hierarchical layout, version 1, is supported"
        )
