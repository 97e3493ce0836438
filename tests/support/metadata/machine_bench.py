"""A machine of the metadata server with sessions, an own clock and transaction ids, and random requests for it."""

import random

from engine.metadata.server.machine import Machine, WriteOutcome
from engine.metadata.server.protocol import (
    ANY_VERSION,
    OPEN_ACL,
    Acl,
    AclEntry,
    Answer,
    Check,
    Create,
    CreateMode,
    Delete,
    ErrorCode,
    Multi,
    Op,
    Read,
    SetAcl,
    SetData,
    Write,
)
from engine.metadata.server.session_table import SessionClient
from engine.metadata.server.watch_table import WatchNotice

READ_ONLY: Acl = (AclEntry(1, "world", "anyone"),)
OWN: Acl = (AclEntry(31, "auth", ""),)


class Bench:
    """A machine whose writes get the next transaction id, and every outcome so far."""

    def __init__(self, watch_limit: int = 1000) -> None:
        self.machine = Machine(watch_limit)
        self.now_ms = 1_000
        self.outcomes: list[WriteOutcome] = []
        self._sessions = 0

    def client(self, session_id: int | None = None, address: str = "127.0.0.1") -> SessionClient:
        """Open a session, or with its id connect to it again."""
        if session_id is None:
            self._sessions += 1
            session_id = self._sessions
            self._keep(
                self.machine.open_session(session_id, 30_000, b"p" * 16, self._next(), self.now_ms)
            )
        return SessionClient(session_id, address)

    def write(self, client: SessionClient, request: Write) -> WriteOutcome:
        return self._keep(self.machine.write(client, request, self._next(), self.now_ms))

    def close(self, client: SessionClient) -> WriteOutcome:
        return self._keep(self.machine.close_session(client.session_id, self._next(), self.now_ms))

    def remove_unused(self) -> list[WriteOutcome]:
        return [
            self._keep(self.machine.remove_unused(path, self._next(), self.now_ms))
            for path in self.machine.unused(self.now_ms)
        ]

    def create(
        self,
        client: SessionClient,
        path: str,
        data: bytes = b"",
        mode: int = CreateMode.PERSISTENT,
        *,
        op: Op = Op.CREATE2,
        acl: Acl = OPEN_ACL,
        ttl_ms: int = 0,
    ) -> WriteOutcome:
        return self.write(client, Create(op, path, data, acl, mode, ttl_ms))

    def code(self, client: SessionClient, request: Write) -> ErrorCode:
        return self.write(client, request).code

    def read(self, client: SessionClient, request: Read) -> Answer:
        """Return the answer of a read that succeeds."""
        code, answer = self.machine.read(client, request)
        assert code is ErrorCode.OK
        assert answer is not None
        return answer

    def _next(self) -> int:
        return self.machine.last_zxid + 1

    def _keep(self, outcome: WriteOutcome) -> WriteOutcome:
        self.outcomes.append(outcome)
        return outcome


def state_of(machine: Machine) -> dict[str, object]:
    """Return everything a machine keeps on the disk, and what it derives from it."""
    tree = machine.tree
    return {
        "nodes": {path: tree.put_of(path) for path in tree.nodes},
        "children": {path: sorted(node.children or ()) for path, node in tree.nodes.items()},
        "ephemerals": {owner: sorted(paths) for owner, paths in tree.ephemerals.items()},
        "containers": sorted(tree.containers),
        "ttls": sorted(tree.ttls),
        "bytes": tree.data_bytes,
        "acls": {shared.acl: shared.nodes for shared in tree.shared_acls()},
        "sessions": sorted(machine.sessions.changes()),
    }


def events(notices: list[WatchNotice]) -> list[tuple[str, str]]:
    """Return the names and paths of the events in notices."""
    return [(notice.event.type.name, notice.event.path) for notice in notices]


class RandomWrites:
    """Random writes on few paths, so that many of them meet; about half of them fail."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = ("a", "b", "c")

    def path(self) -> str:
        depth = self._rng.choice((1, 1, 2, 2, 3))
        return "/" + "/".join(self._rng.choice(self._names) for _ in range(depth))

    def request(self) -> Write:
        kind = self._rng.randrange(10)
        if kind == 0:
            return SetAcl(self.path(), self._acl(), self._version())
        if kind == 1:
            return Multi(tuple(self._op() for _ in range(self._rng.randrange(5))))
        request = self._op()
        return Multi((request,)) if isinstance(request, Check) else request

    def _op(self) -> Create | Delete | SetData | Check:
        rng = self._rng
        kind = rng.randrange(8)
        if kind < 4:
            mode = rng.choice((0, 0, 0, 1, 2, 3))
            op = rng.choice((Op.CREATE, Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL))
            if op is Op.CREATE_TTL:
                mode = rng.choice((5, 6))
            return Create(op, self.path(), rng.randbytes(3), self._acl(), mode, 10)
        if kind < 6:
            return Delete(self.path(), self._version())
        if kind == 6:
            return SetData(self.path(), rng.randbytes(rng.randrange(4)), self._version())
        return Check(self.path(), self._version())

    def _version(self) -> int:
        return self._rng.choice((ANY_VERSION, ANY_VERSION, ANY_VERSION, 0, 1))

    def _acl(self) -> Acl:
        return self._rng.choice((OPEN_ACL, OPEN_ACL, OPEN_ACL, OPEN_ACL, READ_ONLY, OWN))
