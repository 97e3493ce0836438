"""How ledger metadata lies in the tree, as ``/ledgers/LAYOUT`` tells: ``2 LF <factory class>:1``.

This client keeps to the hierarchical layout, which takes short ids and those above 31 bits. A cluster laid out in
another way is refused: its ledgers would not be found, and ids would be given twice. Without the node (Pulsar's own
driver writes none) the layout is the hierarchical one.
"""

from engine.ledger.errors import MetadataFormatError
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError

LAYOUT_VERSION = 2
HIERARCHICAL = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
MANAGER_VERSION = 1


def check(data: bytes) -> None:
    """Raise MetadataFormatError unless ``data`` is the layout this client keeps to."""
    text = data.decode("utf-8", "replace").strip()
    version, _, rest = text.partition("\n")
    if version != str(LAYOUT_VERSION):
        raise MetadataFormatError(
            f"{paths.LAYOUT}: layout version {version!r} is not {LAYOUT_VERSION}"
        )
    factory, _, manager = rest.rpartition(":")
    if factory != HIERARCHICAL or manager != str(MANAGER_VERSION):
        raise MetadataFormatError(
            f"{paths.LAYOUT}: ledgers are laid out by {rest!r}, this client knows {HIERARCHICAL}:{MANAGER_VERSION}"
        )


async def verify(store: MetadataStore) -> None:
    """Read the layout and check it. Raises MetadataFormatError and the store's errors."""
    try:
        data, _ = await store.get(paths.LAYOUT)
    except NoNodeError:
        return
    check(data)
