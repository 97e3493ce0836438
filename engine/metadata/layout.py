"""Root nodes of a cluster's ledgers, and the check of their layout, which BookKeeper's node ``LAYOUT`` names; only one
layout is supported.

The value is the format version, LF, the name of BookKeeper's class, ``:``, its version. Pulsar's own metadata driver
writes no such node; the layout is the hierarchical one then. With another layout all ledgers would appear to be
deleted, because their metadata lies on other paths.
"""

from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
"""Value that the first bookie of a cluster writes."""

_KNOWN = ("HierarchicalLedgerManagerFactory", "hierarchical")  # the latter in format version 1


class LayoutError(MagnetarError):
    """The cluster stores its ledgers in an unsupported layout."""


async def create_ledgers(store: MetadataStore, entropy: Entropy) -> None:
    """Create BookKeeper's missing root nodes of a new cluster. Raises the store's errors."""
    text = entropy.hex(16)
    uuid = f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
    for path, value in (
        (paths.INSTANCE_ID, uuid.encode()),
        (paths.AVAILABLE, b""),
        (paths.READ_ONLY, b""),
        (paths.LAYOUT, LAYOUT),
    ):
        try:
            await store.create(path, value, make_parents=True)
        except NodeExistsError:
            continue  # another bookie initializes the cluster at the same time: its id counts


async def check_layout(store: MetadataStore) -> None:
    """Raise LayoutError unless the cluster has the supported layout. Raises the store's errors."""
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
