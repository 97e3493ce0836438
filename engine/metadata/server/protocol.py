"""Requests, answers and codes of ZooKeeper's client protocol as values, apart from their bytes (``codec``).

Source: the public protocol of Apache ZooKeeper 3.9 (zookeeper.jute). Times are milliseconds, versions 32-bit signed
numbers that wrap around, transaction ids (zxid) 64-bit. Data of a node are None when the client sent jute's null, which
the protocol keeps apart from empty data.
"""

from enum import IntEnum
from typing import Final, NamedTuple

ANY_VERSION = -1


class Op(IntEnum):
    """Request types."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11
    ERROR = -1
    """Element of a multi's answer only."""


class ErrorCode(IntEnum):
    """Error codes of answers."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    NOT_READ_ONLY = -119
    """A write that the server refuses because it is read-only: its disk is full."""
    NO_WATCHER = -121
    THROTTLED = -127
    """A request that was not executed: the limit of watches is reached."""


class CreateMode(IntEnum):
    """Kinds of nodes, as create's flags."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


class Permission:
    """Rights of an ACL entry: plain integers, as those of a flag are slow."""

    READ: Final = 1
    WRITE: Final = 2
    CREATE: Final = 4
    DELETE: Final = 8
    ADMIN: Final = 16
    ALL: Final = 31


class AclEntry(NamedTuple):
    """Rights of one identity. ``scheme`` is world, auth, digest, ip or x509."""

    permissions: int
    scheme: str
    id: str


Acl = tuple[AclEntry, ...]
OPEN_ACL: Acl = (AclEntry(Permission.ALL, "world", "anyone"),)


class Stat(NamedTuple):
    """A node's state, in the order of its bytes (68 bytes)."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    """Session id of an ephemeral node, else 0: what a container's and a TTL node's owner encodes stays inside."""
    data_length: int
    num_children: int
    pzxid: int


# Requests. A path of a request is unchecked until the machine checks it.


class Create(NamedTuple):
    """CREATE, CREATE2, CREATE_CONTAINER and CREATE_TTL; ``op`` decides on the answer's form."""

    op: Op
    path: str
    data: bytes | None
    acl: Acl
    flags: int
    """A CreateMode, unchecked."""
    ttl_ms: int = 0


class Delete(NamedTuple):
    path: str
    version: int


class Exists(NamedTuple):
    path: str
    watch: bool


class GetData(NamedTuple):
    path: str
    watch: bool


class SetData(NamedTuple):
    path: str
    data: bytes | None
    version: int


class GetAcl(NamedTuple):
    path: str


class SetAcl(NamedTuple):
    path: str
    acl: Acl
    version: int


class GetChildren(NamedTuple):
    """GET_CHILDREN, and with ``stat`` GET_CHILDREN2."""

    path: str
    watch: bool
    stat: bool


class Sync(NamedTuple):
    path: str


class Check(NamedTuple):
    """An operation of Multi only."""

    path: str
    version: int


class Multi(NamedTuple):
    """MULTI: creates, deletes, sets and checks, all or none."""

    ops: tuple["Create | Delete | SetData | Check", ...]


class MultiRead(NamedTuple):
    ops: tuple["GetData | GetChildren", ...]


class SetWatches(NamedTuple):
    """SET_WATCHES, and SET_WATCHES2 with the last two: watches set again after a reconnect.

    Nodes that changed after ``relative_zxid`` fire at once.
    """

    relative_zxid: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]
    persistent: tuple[str, ...] = ()
    persistent_recursive: tuple[str, ...] = ()


class AddWatch(NamedTuple):
    path: str
    mode: int
    """0 persistent, 1 persistent recursive."""


class WatcherKind(IntEnum):
    """Watches that CHECK_WATCHES and REMOVE_WATCHES name."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class FindWatches(NamedTuple):
    """CHECK_WATCHES, and with ``remove`` REMOVE_WATCHES."""

    path: str
    kind: int
    remove: bool


class GetEphemerals(NamedTuple):
    prefix: str


class GetAllChildrenNumber(NamedTuple):
    path: str


class Auth(NamedTuple):
    scheme: str
    auth: bytes


class WhoAmI(NamedTuple):
    pass


class Ping(NamedTuple):
    pass


class CloseSession(NamedTuple):
    pass


Write = Create | Delete | SetData | SetAcl | Multi | CloseSession
"""Requests that take a transaction id, also when they fail."""
Read = Exists | GetData | GetAcl | GetChildren | MultiRead | GetEphemerals | GetAllChildrenNumber
WatchRequest = SetWatches | AddWatch | FindWatches
Request = Write | Read | WatchRequest | Sync | Auth | WhoAmI | Ping


class ConnectRequest(NamedTuple):
    """First frame of a connection. ``session_id`` 0 opens a session."""

    protocol: int
    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool = False
    has_read_only: bool = True
    """Presence of ``read_only`` in the frame: clients older than 3.4 do not send it. The answer has it then too."""


class ConnectAnswer(NamedTuple):
    """Answer to the first frame. ``timeout_ms`` and ``session_id`` 0: the session does not exist any more."""

    timeout_ms: int
    session_id: int
    password: bytes


# Answers. A failed request has only an ErrorCode; the answers of writes and reads:


class Created(NamedTuple):
    """Answer of Create; ``stat`` only when the request's form has one."""

    path: str
    stat: Stat | None


class Data(NamedTuple):
    data: bytes | None
    stat: Stat


class Children(NamedTuple):
    names: tuple[str, ...]
    stat: Stat | None


class AclAnswer(NamedTuple):
    acl: Acl
    stat: Stat


class Paths(NamedTuple):
    paths: tuple[str, ...]


class Number(NamedTuple):
    """Answer of GetAllChildrenNumber; 0 as answer of AddWatch, which has an error code as its body."""

    number: int


class Path(NamedTuple):
    """Answer of Sync."""

    path: str


class Identities(NamedTuple):
    """Answer of WhoAmI: scheme and user of each identity."""

    identities: tuple[tuple[str, str], ...]


class MultiAnswer(NamedTuple):
    """One result for each operation: its answer with its request's Op, or an ErrorCode.

    A failed MULTI has only codes (OK, the failing operation's, RUNTIME_INCONSISTENCY). MULTI_READ's are independent.
    """

    results: tuple["tuple[Op, Answer | None] | ErrorCode", ...]


Answer = (
    Created | Stat | Data | Children | AclAnswer | Paths | Number | Path | Identities | MultiAnswer
)
"""Body of a successful answer; None for those without one: of Delete, Check, Auth, Ping, SetWatches, FindWatches."""


class EventType(IntEnum):
    """Kinds of watch events."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7


class Event(NamedTuple):
    """A watch event. Its frame's state is always SyncConnected (3)."""

    type: EventType
    path: str
    zxid: int = -1
    """Transaction that fired it; -1 when none did (a watch removed, or set again after the change)."""
