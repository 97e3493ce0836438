"""What metadata says of ledgers: those that topics and cursors list, and those that there are."""

from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata import paths
from engine.metadata.tree import Tree


def listed_ledgers(tree: Tree) -> list[int]:
    """Ledgers of every topic and cursor, and those that they have yet to delete."""
    found: set[int] = set()
    for path, node in tree._nodes.items():
        depth = path.removeprefix(paths.MANAGED_LEDGERS + "/").count("/")
        if not path.startswith(paths.MANAGED_LEDGERS + "/") or depth < TOPIC_DEPTH:
            continue
        if depth == TOPIC_DEPTH:
            topic = LogRecord.decode(node.value)
            found.update(one.ledger_id for one in topic.ledgers)
            found.update(topic.doomed)
        else:
            cursor = CursorRecord.decode(node.value)
            found.update((cursor.ledger_id, *cursor.doomed, *cursor.index))
    return sorted(found - {-1})


def stored_ledgers(tree: Tree) -> list[int]:
    """Ledgers that metadata knows."""
    found = (paths.ledger_id(path) for path in tree._nodes)
    return sorted(one for one in found if one is not None)


TOPIC_DEPTH = 3
"""Slashes of ``tenant/namespace/persistent/topic``."""
