"""A metadata service of several servers: writes go to the leader, reads to the server that a session is connected to,
which may be behind. As ZooKeeper promises, a session never reads values older than those it wrote or read before, is
notified of a change before it can read it, and ``exists`` finds every record that existed at the request (``sync``).
"""

from typing import Any

from engine.base.clock import Clock
from engine.metadata.memory import MemoryServer, _Session
from engine.metadata.tree import Tree, _Node

FOLLOWERS = 2
READS = ("get", "exists", "children")


class FollowedServer(MemoryServer):
    """Sessions are spread over ``FOLLOWERS`` servers, all of them up to date but those that ``fall_behind``."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._behind: dict[int, Tree] = {}
        """Trees of the servers that are behind, by follower."""
        self.away = False
        """Set while no request reaches any server, and no answer a client."""
        self.executing = -1
        """Id of the session whose request is or was executed last."""

    @property
    def behind(self) -> bool:
        """True while some server is behind."""
        return bool(self._behind)

    def _is_cut(self, session: _Session) -> bool:
        return self.away or super()._is_cut(session)

    def fall_behind(self, follower: int) -> None:
        """Let a follower see only writes of its own sessions from now on, until ``catch_up``."""
        self._behind.setdefault(follower, _copy(self.tree))

    def catch_up(self, follower: int) -> None:
        before = self._behind.pop(follower, None)
        if before is not None:
            self._notify_changes(follower, before)

    def _notify_changes(self, follower: int, before: Tree) -> None:
        for session in list(self._sessions.values()):
            if session.id % FOLLOWERS == follower:
                for path in {**session.watched, **session.read_watched}:
                    if _seen(before, path) != _seen(self.tree, path):
                        self._tell(session, path)

    def _execute(self, session: _Session, op: str, path: str, args: tuple[Any, ...]) -> Any:
        self.executing = session.id
        follower = session.id % FOLLOWERS
        before = self._behind.get(follower)
        if before is None or op in ("ping", "watch", "unwatch"):
            return super()._execute(session, op, path, args)
        if op in READS:
            if args[0]:
                session.read_watched[path] = None
            answer = getattr(before, op)(path)
            if answer is not None:
                return answer
        # A server answers a write, and a ``sync``, when it has applied it and all before it.
        try:
            return super()._execute(session, op, path, args)
        finally:
            self.catch_up(follower)
            self.fall_behind(follower)

    def _notify(self, paths: list[str]) -> None:
        for path in paths:
            for session in list(self._sessions.values()):
                is_watched = path in session.watched or path in session.read_watched
                if is_watched and session.id % FOLLOWERS not in self._behind:
                    self._tell(session, path)

    def _tell(self, session: _Session, path: str) -> None:
        session.read_watched.pop(path, None)  # the watch of a read fires once
        self._send(session, 0.0, session.store._changed, path)


def _seen(tree: Tree, path: str) -> tuple[Any, ...] | None:
    node = tree._nodes.get(path)
    return None if node is None else (node.version, node.owner, node.ctime_ms, *node.children)


def _copy(tree: Tree) -> Tree:
    twin = Tree()
    for path, node in tree._nodes.items():
        other = twin._nodes[path] = _Node(node.value, node.owner, node.ctime_ms, node.creation)
        other.version, other.mtime_ms = node.version, node.mtime_ms
        other.created, other.children = node.created, dict(node.children)
    return twin
