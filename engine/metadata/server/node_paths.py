"""Paths of nodes: the rules of ZooKeeper's PathUtils.

The root has two names: ``/`` in requests and ``""`` as the parent of its children. Both lead to the same node.
"""

import re

ROOT = "/"

RESERVED = frozenset((ROOT, "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))
"""Nodes that always exist and cannot be deleted."""

# Java's strings are UTF-16, so that characters beyond U+FFFF are surrogates there, which are not allowed.
_PART = "[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]+"
_VALID = re.compile(rf"/|(?:/(?!\.\.?(?:/|\Z)){_PART})+")


def is_valid(path: str) -> bool:
    """Return whether a node may have this path.

    It is absolute, without empty, ``.`` or ``..`` parts and without control or private characters.
    """
    if path.isascii() and path.isprintable() and "//" not in path and "/." not in path:
        # Most paths need no search for parts and characters, which takes five times as long.
        return path == ROOT or (path[:1] == "/" and path[-1] != "/")
    return _VALID.fullmatch(path) is not None


def split(path: str) -> tuple[str, str]:
    """Return the parent's path (``""`` for the root) and the name. ``path`` has a ``/``."""
    parent, _, name = path.rpartition("/")
    return parent, name


def join(parent: str, name: str) -> str:
    """Return the path of the child ``name`` of ``parent``."""
    return f"{'' if parent == ROOT else parent}/{name}"
