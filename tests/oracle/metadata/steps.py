"""Random sequences of ZooKeeper operations of several sessions, the same for a seed."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from engine.metadata.server.protocol import (
    OPEN_ACL,
    Acl,
    AclEntry,
    AddWatch,
    Auth,
    Check,
    Create,
    Delete,
    Exists,
    FindWatches,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Op,
    Ping,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
    WhoAmI,
)

SLOTS = 3
EXPIRING_MS = 1500
"""Timeout of a session that is to expire."""
TTL_MS = 10**9
"""Time to live of nodes: longer than any run."""
DIGESTS = {"ada": "ada:IxAt5/aGZ6XqgQra30E08mm/X6Q=", "bob": "bob:X1SKGw3XQQSIPMZRf5lW7e07VPY="}
"""Identities of the users, whose passwords are their names."""

BAD_PATHS = (
    *("a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a/..", "/.", "/...", "/ä ö", ""),
    *("/a\0b", "/\x01", "/\x7f", "/\x9f", "/\ue000", "/\ufff0", "/\ufffd"),
    *("/no/parent", "/a/x/y/z"),
)
"""Ends of paths that are refused, or nearly."""


class Ask(NamedTuple):
    """Requests that a session's connection sends at once."""

    slot: int
    requests: tuple[Request, ...]


class Enter(NamedTuple):
    """A new session."""

    slot: int
    timeout_ms: int


class Drop(NamedTuple):
    """The end of a connection whose session lives on."""

    slot: int


class Return(NamedTuple):
    """A new connection of the session. The server closes one that is still open."""

    slot: int
    right_password: bool


class Leave(NamedTuple):
    """The end of a session, behind further requests that are sent at once."""

    slot: int
    requests: tuple[Request, ...]


class Expire(NamedTuple):
    """The end of a connection, and time for its session to expire."""

    slot: int


Step = Ask | Enter | Drop | Return | Leave | Expire


class Generator:
    """Draws the steps of one sequence below the path ``root``.

    ``malformed``: some multis are refused as malformed, which take a transaction id on Apache's server only.
    ``expiry``: the first session expires once. An empty ``root`` is that of the server, whose own nodes come up, too.
    """

    def __init__(
        self, seed: str, root: str, *, malformed: bool = True, expiry: bool = False
    ) -> None:
        self._random = Random(seed)
        self._malformed = malformed
        self._expiry = expiry
        self._in_multi = False
        self._careful = False
        """Set while requests are drawn that are likely to succeed."""
        self._made: list[str] = [root or "/"]
        """Paths that may exist: of a few recent creations."""
        self._watched: list[list[str]] = [[root or "/"] for _ in range(SLOTS)]
        """Paths of recent watches, by slot."""
        self._slot = 0
        self._root = root
        self._open = [False] * SLOTS
        self._entered = [False] * SLOTS
        self._alive = [False] * SLOTS

    def sequence(self) -> list[Step]:
        """Return the steps. Requests of one slot are only sent when those of the others are answered."""
        steps: list[Step] = [self._enter(0), Ask(0, self._first_nodes())]
        steps += [self._step() for _ in range(self._random.randint(5, 14))]
        if self._expiry:
            steps += self._expiring()
        return steps

    def _expiring(self) -> list[Step]:
        """Return steps in which a session with ephemeral nodes expires, and some more."""
        steps: list[Step] = [Drop(0), Enter(0, EXPIRING_MS)]
        self._open[0] = self._alive[0] = True
        self._slot = 0
        nodes = [Create(Op.CREATE, self._path(), b"e", OPEN_ACL, 1) for _ in range(4)]
        steps += [Ask(0, (*nodes, GetEphemerals("/"))), *(self._watching(1)), *(self._watching(2))]
        self._open[0] = False
        return [*steps, Expire(0), *(self._step() for _ in range(6))]

    def _watching(self, slot: int) -> list[Step]:
        """Return steps in which a slot watches the tree, if its connection is open."""
        self._slot = slot
        watches = (
            AddWatch(self._root or "/", self._random.randrange(2)),
            self._read(),
            self._watch(),
        )
        return [Ask(slot, watches)]

    def _first_nodes(self) -> tuple[Create, ...]:
        paths = [self._parent(self._root), self._root] if self._root else []
        for name in "abc":
            if self._random.random() < 0.6:
                path = f"{self._root}/{name}"
                paths.append(path)
                paths += [f"{path}/{child}" for child in "xyz" if self._random.random() < 0.4]
        self._made += paths[1:]
        if not self._root:
            self._made += ("/zookeeper", "/zookeeper/quota", "/zookeeper/config")
        return tuple(Create(Op.CREATE2, path, b"0", OPEN_ACL, 0) for path in paths)

    def _enter(self, slot: int) -> Step:
        self._open[slot] = self._entered[slot] = self._alive[slot] = True
        return Enter(slot, self._random.choice((30_000, 30_000, 20_003, 90_000)))

    def _step(self) -> Step:
        slot = self._slot = self._random.randrange(SLOTS)
        chance = self._random.random()
        if not self._open[slot]:
            if self._entered[slot] and chance < (0.9 if self._alive[slot] else 0.1):
                right = self._random.random() < 0.9
                self._open[slot] = right and self._alive[slot]
                return Return(slot, right)
            return self._enter(slot)
        if chance < 0.05:
            self._open[slot] = False
            return Drop(slot)
        if chance < 0.07:
            return Return(slot, right_password=True)
        if chance < 0.11:
            self._open[slot] = self._alive[slot] = False
            return Leave(slot, self._requests(self._random.choice((0, 0, 1, 3))))
        if chance < 0.115:
            self._open[slot] = False
            return Ask(slot, (self._last_words(),))
        return Ask(slot, self._requests(self._random.choice((1, 1, 1, 2, 3, 6, 12))))

    def _last_words(self) -> Request:
        """Return a request after which the server closes the connection."""
        if self._random.random() < 0.5:
            return Auth("nothing", b"x")
        return SetData(f"{self._root}/a", bytes((1 << 20) + self._random.randrange(50_000)), -1)

    def _requests(self, count: int) -> tuple[Request, ...]:
        requests = tuple(self._request() for _ in range(count))
        for i, request in enumerate(requests):
            # Apache's server answers it at once, also before requests that came earlier.
            if isinstance(request, Auth):
                return (request,)
            # A write may be checked by the previous ACL until the new one's answer has come.
            if isinstance(request, SetAcl):
                return requests[: i + 1]
        return requests

    def _request(self) -> Request:
        draw: Callable[[], Request] = self._random.choices(
            [
                self._create,
                self._delete,
                self._set_data,
                self._read,
                self._watch,
                self._multi,
                self._rare,
            ],
            weights=[24, 12, 12, 26, 10, 10, 6],
        )[0]
        return draw()

    def _path(self) -> str:
        """Return a path of a few, so that requests meet."""
        chance = self._random.uniform(0.05 if self._careful else 0.0, 1.0)
        if chance < 0.025:
            return self._bad_path()
        if chance < 0.05:
            return self._root or "/"
        name = self._random.choice("aaabbc")
        path = f"{self._root}/{name}"
        if chance < 0.45:
            return path
        if chance < 0.60:
            return f"{path}/s{self._random.randrange(4):010d}"
        return f"{path}/{self._random.choice('xyz')}"

    def _known_path(self) -> str:
        """Return a path that is likely to exist, or any."""
        return self._random.choice(self._made) if self._random.random() < 0.6 else self._path()

    def _watched_path(self) -> str:
        """Return a path whose watch is likely to exist, or any."""
        watched = self._watched[self._slot]
        return self._random.choice(watched) if self._random.random() < 0.8 else self._path()

    def _remember(self, paths: list[str], path: str) -> None:
        if path.startswith(self._root) and "😀" not in path:
            paths.append(path)
            del paths[:-8]

    def _bad_path(self) -> str:
        return self._root + self._random.choice(BAD_PATHS)

    def _changed_path(self) -> str:
        """Return a path to create or delete: also one that all sequences share, where both are refused."""
        if self._random.random() < 0.01:
            return self._random.choice(("", "nothing", "/", "/zookeeper", f"{self._root}/😀"))
        return self._path()

    def _version(self) -> int:
        if self._careful:
            return -1
        return self._random.choice((-1, -1, -1, -1, -1, -1, 0, 0, 0, 1, 1, 2, -2, 1 << 30))

    def _data(self) -> bytes | None:
        chance = self._random.random()
        if chance < 0.05:
            return None
        if chance < 0.06 and not self._in_multi:  # two of them are too much for a request
            return bytes([self._random.randrange(256)]) * self._random.randrange(100_000, 900_000)
        return self._random.randbytes(self._random.randrange(12))

    def _acl(self) -> Acl:
        chance = self._random.random()
        if chance < 0.80 or self._careful:
            return OPEN_ACL
        if chance < 0.82:
            return ()
        user = self._random.choice(list(DIGESTS))
        permissions = self._random.choice((31, 31, 31, 1, 2, 3, 4, 8, 16, 12, 17, 30, 0))
        entry = self._random.choice(
            (
                AclEntry(permissions, "world", "anyone"),
                AclEntry(permissions, "auth", ""),
                AclEntry(permissions, "digest", DIGESTS[user]),
                AclEntry(permissions, "digest", DIGESTS[user]),
                AclEntry(permissions, "ip", "127.0.0.1"),
                AclEntry(
                    permissions, "ip", self._random.choice(("127.0.0.0/8", "10.0.0.0/8", "no"))
                ),
                AclEntry(permissions, "digest", self._random.choice(("ada", "a:b:c", ""))),
                AclEntry(permissions, self._random.choice(("world", "nothing", "")), "x"),
            )
        )
        if self._random.random() < 0.3:
            return (entry, *self._acl())
        return (entry,)

    def _create(self) -> Create:
        chance = self._random.random()
        path, data, acl = self._changed_path(), self._data(), self._acl()
        self._remember(self._made, path)
        if chance < 0.07:
            return Create(Op.CREATE_CONTAINER, path, data, acl, 4)
        if chance < 0.14:
            ttl_ms = self._random.choice((TTL_MS, TTL_MS, TTL_MS + 1, 0, -1, 1 << 40))
            if self._random.random() < 0.3:
                path = self._parent(path) + "/s"
                return Create(Op.CREATE_TTL, path, data, acl, 6, ttl_ms)
            return Create(Op.CREATE_TTL, path, data, acl, 5, ttl_ms)
        if chance < 0.15 and (self._malformed or not self._in_multi):
            # Apache's server is of two minds about containers and TTL nodes with other flags, by a race.
            op = self._random.choice((Op.CREATE, Op.CREATE2))
            return Create(op, self._path(), data, acl, self._random.randrange(-1, 9))
        op = self._random.choice((Op.CREATE, Op.CREATE, Op.CREATE2))
        flags = self._random.choice((0, 0, 0, 1, 1, 2, 3))
        if flags >= 2:
            path = self._parent(path) + self._random.choice(("/s", "/s", "/", "/x"))
        return Create(op, path, data, acl, flags)

    def _parent(self, path: str) -> str:
        return path.rpartition("/")[0] or self._root

    def _delete(self) -> Request:
        if self._random.random() < 0.6:
            return Delete(self._random.choice(self._made[-3:]), self._version())
        return Delete(self._changed_path(), self._version())

    def _set_data(self) -> Request:
        return SetData(self._known_path(), self._data(), self._version())

    def _read(self) -> Request:
        path, watch = self._known_path(), self._random.random() < 0.5
        if watch:
            self._remember(self._watched[self._slot], path)
        requests: tuple[Request, ...] = (
            Exists(path, watch),
            Exists(path, watch),
            GetData(path, watch),
            GetData(path, watch),
            GetChildren(path, watch, stat=False),
            GetChildren(path, watch, stat=True),
            GetAcl(path),
        )
        return self._random.choice(requests)

    def _watch(self) -> Request:
        path, kind = self._path(), self._random.choice((1, 1, 2, 2, 3, 3, 3, 3, 4, 5, 0, 9))
        sought = self._watched_path()
        self._remember(self._watched[self._slot], path)
        requests: tuple[Request, ...] = (
            AddWatch(path, self._random.choice((0, 0, 0, 1, 1, 1, 2))),
            AddWatch(path, self._random.randrange(2)),
            FindWatches(sought, kind, remove=self._random.random() < 0.4),
            FindWatches(sought, kind, remove=self._random.random() < 0.4),
            self._set_watches(),
        )
        return self._random.choice(requests)

    def _set_watches(self) -> SetWatches:
        """Return watches set again. The zxid is a number of own writes ago, which the player replaces."""

        def paths() -> tuple[str, ...]:
            return tuple(self._path() for _ in range(self._random.choice((0, 0, 1, 2))))

        ago = self._random.choice((0, 0, 1, 2, 5, 1000))
        if self._random.random() < 0.5:
            return SetWatches(ago, paths(), paths(), paths())
        return SetWatches(ago, paths(), paths(), paths(), paths(), paths())

    def _multi(self) -> Request:
        count = self._random.choice((0, 1, 2, 2, 3, 3, 4))
        if self._random.random() < 0.25:
            reads = (GetData(self._path(), False), GetChildren(self._path(), False, stat=False))
            return MultiRead(tuple(self._random.choice(reads) for _ in range(count)))
        draws = (self._create, self._create, self._delete, self._set_data, self._check)
        self._careful = self._random.random() < 0.6
        self._in_multi = True
        parts = [self._random.choice(draws)() for _ in range(count)]
        self._careful = self._in_multi = False
        return Multi(tuple(parts))  # type: ignore[arg-type]

    def _check(self) -> Request:
        return Check(self._known_path(), self._version())

    def _rare(self) -> Request:
        path = self._known_path()
        lockable = f"{self._root}/a" if path in ("", "/") else path  # not all later sequences
        user = self._random.choice(list(DIGESTS))
        requests: tuple[Request, ...] = (
            SetAcl(lockable, self._acl(), self._version()),
            SetAcl(lockable, self._acl(), -1),
            Auth("digest", f"{user}:{user}".encode()),
            Auth("digest", f"{user}:{user}".encode()),
            GetEphemerals(self._random.choice((self._root, path))),
            GetAllChildrenNumber(path if path.startswith(self._root) else self._root),
            Sync(path),
            WhoAmI(),
            Ping(),
        )
        return self._random.choice(requests)
