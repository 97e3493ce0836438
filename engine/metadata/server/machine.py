"""The state machine of the server: sessions, tree and watches, changed by one transaction after another. Pure.

The server calls ``write`` in the order in which requests arrive. A write is executed at once, and its watches fire at
once: their notices belong to it as its answer does. The server keeps both until the transaction is on the disk. So
does it with the answer of a read that shows a change which is not on the disk yet (``paths_of`` and
``Transaction.paths``). What a start reads from the disk goes through ``replay``. Invariant Z5.
"""

from typing import NamedTuple

from engine.metadata.server import acl as access
from engine.metadata.server.changes import (
    Change,
    SessionClosed,
    SessionOpened,
    Transaction,
)
from engine.metadata.server.node_reads import NodeReader
from engine.metadata.server.node_tree import NodeTree, ttl_of
from engine.metadata.server.node_writes import RefusedRequestError, WriteExecution
from engine.metadata.server.protocol import (
    Answer,
    Auth,
    CloseSession,
    ErrorCode,
    Identities,
    Read,
    WatchRequest,
    Write,
)
from engine.metadata.server.session_table import SessionClient, SessionTable
from engine.metadata.server.watch_table import Watches, WatchLimitError, WatchNotice


class WriteOutcome(NamedTuple):
    """Result of a write."""

    code: ErrorCode
    answer: Answer | None
    transaction: Transaction
    """Entry for the log, also of a failed write: its id is taken."""
    notices: list[WatchNotice]
    """Events for clients, in order, each before the answer of any later request."""


class Machine:
    """SessionTable, tree and watches. ``last_zxid`` is the id of the last transaction, stored or not."""

    def __init__(self, watch_limit: int) -> None:
        self.tree = NodeTree()
        self.sessions = SessionTable()
        self.watches = Watches(watch_limit)
        self.last_zxid = 0
        self._reader = NodeReader(self.tree, self.watches)

    def replay(self, transaction: Transaction) -> None:
        """Make the changes of a stored transaction. Made twice they are made once."""
        for change in transaction.changes:
            self.apply(change)
        self.last_zxid = max(self.last_zxid, transaction.zxid)

    def apply(self, change: Change) -> None:
        """Make a stored change."""
        if isinstance(change, SessionOpened | SessionClosed):
            self.sessions.apply(change)
        else:
            self.tree.apply(change)

    def write(self, client: SessionClient, request: Write, zxid: int, now_ms: int) -> WriteOutcome:
        """Execute a write with the next transaction id at the wall time ``now_ms``. A failed one changes nothing."""
        if isinstance(request, CloseSession):
            return self.close_session(client.session_id, zxid, now_ms)
        self._take(zxid)
        execution = WriteExecution(self.tree, self.watches, zxid, now_ms)
        try:
            self._require_session(client, request)
            answer = execution.run(client, request)
        except RefusedRequestError as error:
            return WriteOutcome(error.code, None, Transaction(zxid, now_ms, ()), [])
        return self._outcome(execution, answer, zxid, now_ms)

    def open_session(
        self, session_id: int, timeout_ms: int, password: bytes, zxid: int, now_ms: int
    ) -> WriteOutcome:
        """Open a session. The highest byte of ``session_id`` is less than 0x80, and it is not 0."""
        self._take(zxid)
        opened = SessionOpened(session_id, timeout_ms, password)
        self.sessions.apply(opened)
        return WriteOutcome(ErrorCode.OK, None, Transaction(zxid, now_ms, (opened,)), [])

    def close_session(self, session_id: int, zxid: int, now_ms: int) -> WriteOutcome:
        """End a session, which closed or expired, and delete its ephemeral nodes."""
        self._take(zxid)
        execution = WriteExecution(self.tree, self.watches, zxid, now_ms)
        for path in sorted(self.tree.ephemerals.get(session_id, ())):
            execution.remove(path)
        closed = SessionClosed(session_id)
        self.sessions.apply(closed)
        return self._outcome(execution, None, zxid, now_ms, closed)

    def unused(self, now_ms: int) -> list[str]:
        """Return the nodes to ``remove_unused``: containers whose children are all deleted, and expired TTL nodes."""
        nodes = self.tree.nodes
        return [
            *(
                path
                for path in self.tree.containers
                if not nodes[path].children and nodes[path].cversion > 0
            ),
            *(
                path
                for path in self.tree.ttls
                if not nodes[path].children
                and now_ms - nodes[path].mtime > ttl_of(nodes[path].owner)
            ),
        ]

    def remove_unused(self, path: str, zxid: int, now_ms: int) -> WriteOutcome:
        """Delete a container or TTL node, unless it has children (again)."""
        self._take(zxid)
        execution = WriteExecution(self.tree, self.watches, zxid, now_ms)
        try:
            execution.remove_unused(path)
        except RefusedRequestError as error:
            return WriteOutcome(error.code, None, Transaction(zxid, now_ms, ()), [])
        return self._outcome(execution, None, zxid, now_ms)

    def read(self, client: SessionClient, request: Read) -> tuple[ErrorCode, Answer | None]:
        """Execute a read, and set the watch that it asks for.

        THROTTLED: the limit of watches is reached, and nothing was done.
        """
        try:
            return ErrorCode.OK, self._reader.read(client, request)
        except RefusedRequestError as error:
            return error.code, None
        except WatchLimitError:
            return ErrorCode.THROTTLED, None

    def watch(
        self, client: SessionClient, request: WatchRequest
    ) -> tuple[ErrorCode, list[WatchNotice]]:
        """Execute a request about watches. The notices go before its answer.

        THROTTLED: the limit of watches is reached, and none was set. Clients ignore the result of
        SET_WATCHES, so that the server closes the connection then.
        """
        try:
            return ErrorCode.OK, self._reader.watch(client, request)
        except RefusedRequestError as error:
            return error.code, []
        except WatchLimitError:
            return ErrorCode.THROTTLED, []

    def authenticate(self, client: SessionClient, request: Auth) -> ErrorCode:
        """Add an identity to the client. AUTH_FAILED: the server answers so and closes the connection."""
        identity = access.authenticated(request.scheme, request.auth, client.identities)
        if identity is None:
            return ErrorCode.AUTH_FAILED
        if identity not in client.identities:
            client.identities.append(identity)
        return ErrorCode.OK

    def who_am_i(self, client: SessionClient) -> Identities:
        return Identities(
            tuple((identity.scheme, access.user_of(identity)) for identity in client.identities)
        )

    def _require_session(self, client: SessionClient, request: Write) -> None:
        if client.session_id not in self.sessions:
            raise RefusedRequestError(ErrorCode.SESSION_EXPIRED)

    def _take(self, zxid: int) -> None:
        if zxid <= self.last_zxid:
            raise ValueError(f"transaction id {zxid:#x} after {self.last_zxid:#x}")
        self.last_zxid = zxid

    def _outcome(
        self,
        execution: WriteExecution,
        answer: Answer | None,
        zxid: int,
        now_ms: int,
        *more: Change,
    ) -> WriteOutcome:
        transaction = Transaction(zxid, now_ms, (*execution.changes, *more))
        return WriteOutcome(
            ErrorCode.OK, answer, transaction, self.watches.fire(execution.triggers)
        )
