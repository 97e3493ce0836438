"""In-memory tree with ZooKeeper's rules for versions, ephemerals, sequences and parents. Pure."""

import re
from collections.abc import Sequence

from engine.base.errors import MisuseError
from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Stat,
)

VALUE_MAX = (1 << 20) - (16 << 10)
"""Maximum bytes of a value. ZooKeeper accepts packets of just under 1 MiB by default, which include the path, and
closes the connection that a larger one arrives on."""

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def check_path(path: str) -> None:
    """Raise MisuseError unless ``path`` is absolute, without empty, relative or control-character parts."""
    if path == "/":
        return
    if not path.startswith("/") or path.endswith("/"):
        raise MisuseError(f"metadata path {path!r} must start with '/' and not end with it")
    if any(part in ("", ".", "..") for part in path[1:].split("/")):
        raise MisuseError(f"metadata path {path!r} has an empty or relative part")
    if CONTROL.search(path):
        raise MisuseError(f"metadata path {path!r} has a control character")


def check_paths(paths: Sequence[str], parent: str | None) -> None:
    """Raise MisuseError unless all paths are valid; see ``check_path``."""
    for path in paths:
        check_path(path)
    if parent is not None:
        check_path(parent)


def check_value(path: str, value: bytes) -> None:
    """Raise MisuseError when ``value`` is larger than a store takes."""
    if len(value) > VALUE_MAX:
        raise MisuseError(f"value of {path} has {len(value)} bytes, the limit is {VALUE_MAX}")


def parent_of(path: str) -> str:
    """Return the parent path; the parent of ``/`` is ``/``."""
    return path.rpartition("/")[0] or "/"


class _Node:
    __slots__ = (
        "children",
        "created",
        "creation",
        "ctime_ms",
        "mtime_ms",
        "owner",
        "value",
        "version",
    )

    def __init__(self, value: bytes, owner: int, now_ms: int, creation: int) -> None:
        self.value = value
        self.version = 0
        self.creation = creation
        self.owner = owner
        self.ctime_ms = now_ms
        self.mtime_ms = now_ms
        self.children: dict[str, None] = {}
        self.created = 0  # children ever created, which is the next sequence suffix

    def stat(self) -> Stat:
        changes = 2 * self.created - len(self.children)
        return Stat(self.version, self.owner, self.ctime_ms, self.mtime_ms, self.creation, changes)


class Tree:
    """Nodes by path. Methods that change nodes return the paths whose watchers must be notified, in order."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {"/": _Node(b"", 0, 0, 0)}
        self._creations = 0

    def get(self, path: str) -> tuple[bytes, Stat]:
        node = self._node(path)
        return node.value, node.stat()

    def exists(self, path: str) -> Stat | None:
        node = self._nodes.get(path)
        return None if node is None else node.stat()

    def children(self, path: str) -> list[str]:
        return sorted(self._node(path).children)

    def create(
        self, path: str, value: bytes, owner: int, sequence: bool, now_ms: int
    ) -> tuple[str, list[str]]:
        """Create a node; ``owner`` 0 makes it persistent. Returns the created path and the paths to notify."""
        parent_path = parent_of(path)
        parent = self._node(parent_path)
        if parent.owner:
            raise MisuseError(f"{parent_path} is ephemeral and cannot have children")
        if sequence:
            path = f"{path}{parent.created:010d}"
        if path in self._nodes:
            raise NodeExistsError(path)
        parent.created += 1
        parent.children[path.rpartition("/")[2]] = None
        self._creations += 1
        self._nodes[path] = _Node(value, owner, now_ms, self._creations)
        return path, [path, parent_path]

    def put(self, path: str, value: bytes, version: int, now_ms: int) -> tuple[Stat, list[str]]:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path} is at version {node.version}, not {version}")
        node.value = value
        node.version += 1
        node.mtime_ms = now_ms
        return node.stat(), [path]

    def delete(self, path: str, version: int) -> list[str]:
        if path == "/":
            raise MisuseError("the root cannot be deleted")
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path} is at version {node.version}, not {version}")
        if node.children:
            raise NotEmptyError(f"{path} has {len(node.children)} children")
        return self._remove(path)

    def drop_owner(self, owner: int) -> list[str]:
        """Remove the ephemeral nodes of a session that ended."""
        ephemerals = [path for path, node in self._nodes.items() if node.owner == owner]
        changed: list[str] = []
        for path in ephemerals:
            changed += self._remove(path)
        return changed

    def _remove(self, path: str) -> list[str]:
        parent_path = parent_of(path)
        del self._nodes[path]
        del self._nodes[parent_path].children[path.rpartition("/")[2]]
        return [path, parent_path]

    def _node(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return node
