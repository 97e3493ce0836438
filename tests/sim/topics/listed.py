"""Ledgers in the metadata: those that topics and cursors list, and those that are stored."""

from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata import paths
from engine.metadata.tree import Tree


def listed_ledgers(tree: Tree) -> list[int]:
    """Return the ledgers of every topic and cursor, and those that they have yet to delete."""
    ledgers: set[int] = set()
    for path, node in tree._nodes.items():
        depth = path.removeprefix(paths.MANAGED_LEDGERS + "/").count("/")
        if not path.startswith(paths.MANAGED_LEDGERS + "/") or depth < TOPIC_DEPTH:
            continue
        if depth == TOPIC_DEPTH:
            topic = LogRecord.decode(node.value)
            ledgers.update(info.ledger_id for info in topic.ledgers)
            ledgers.update(topic.doomed)
        else:
            cursor = CursorRecord.decode(node.value)
            ledgers.update((cursor.ledger_id, *cursor.doomed, *cursor.index))
    return sorted(ledgers - {-1})


def stored_ledgers(tree: Tree) -> list[int]:
    """Return the ledgers that are stored in metadata."""
    ledgers = (paths.ledger_id(path) for path in tree._nodes)
    return sorted(ledger for ledger in ledgers if ledger is not None)


TOPIC_DEPTH = 3
"""Slashes of ``tenant/namespace/persistent/topic``."""
