"""Metadata store on etcd, with the keys of Apache Pulsar's: paths as flat keys, version = etcd's version - 1.

What a flat store has not is made of comparisons within a transaction: a parent exists, a deleted node has no children.
A parent whose key another program did not write is *implied* by the keys below it: it is missing, and its children are
listed. A session is a lease. It is proven by a keepalive whose sending precedes a read by quorum in the same term, for
a leader that lost its quorum renews leases for a while. All changes arrive by one watch of everything below the chroot.
"""

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from engine.base.errors import MagnetarError, MisuseError
from engine.base.settings import SettingsError
from engine.base.tasks import TaskScope, restarting
from engine.metadata.etcd.gateway import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    OUT_OF_RANGE,
    PERMISSION_DENIED,
    AccessError,
    EtcdGateway,
    EtcdRefusedError,
    EtcdUser,
)
from engine.metadata.etcd.messages import (
    EtcdKey,
    JsonObject,
    KeyChange,
    MalformedError,
    below,
    compare,
    encoded,
    has_children,
    is_absent,
    is_childless,
    is_present,
    keys_of,
    number,
    part,
    parts,
    range_request,
    ranges_of,
    revision_of,
)
from engine.metadata.etcd.read_watches import ReadWatches
from engine.metadata.etcd.watch_stream import WatchStream
from engine.metadata.session_store import EXPIRE_FRACTION, SUSPECT_FRACTION, SessionStore
from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    Found,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreUnavailableError,
    Watch,
)
from engine.metadata.tree import check_path, check_paths, check_value, parent_of
from engine.net.http_client import HttpClient
from engine.net.network import Network
from engine.net.tls import ContextSource

log = logging.getLogger(__name__)

OPERATIONS_MAX = 64
"""Reads in one transaction. etcd allows 128 operations; 64 values of the largest size are 86 MB of an answer."""
ANSWER_BYTES_MAX = 128 << 20
PAGE_KEYS = 1_000
"""Keys of one request of a listing."""
CLOSE_S_MAX = 2.0
"""Time that the end of a session waits for etcd."""
LISTING_ATTEMPTS = 3
"""Times that a listing begins again because the revision that it reads was compacted."""


class EtcdStore(SessionStore):
    """A session on etcd that implements MetadataStore; created by ``engine.metadata.connect``."""

    def __init__(
        self,
        members: Sequence[str],
        session_timeout_s: float,
        chroot: str,
        *,
        network: Network,
        tls: ContextSource | None = None,
        user: EtcdUser | None = None,
        first: int = 0,
    ) -> None:
        super().__init__(session_timeout_s, max(session_timeout_s * SUSPECT_FRACTION, 1.0))
        self._chroot = chroot
        self._members = members
        self._lease_s = math.ceil(session_timeout_s)
        attempt_s = self._request_timeout_s / min(len(members), 3)
        client = HttpClient(
            network, timeout_s=attempt_s, answer_bytes_max=ANSWER_BYTES_MAX, tls=tls
        )
        self._gateway = EtcdGateway(members, client, user, first=first)
        self._session_id = 0
        self._seen = -math.inf
        """Loop time before which all events have been reported or will be at once."""
        self._tasks = TaskScope("etcd")
        self._timer: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._stream = WatchStream(
            self._gateway,
            *below(chroot),
            replace_s=session_timeout_s * SUSPECT_FRACTION / 2,
            open_timeout_s=attempt_s,
            opened=self._on_opened,
            changed=self._on_change,
            missed=self._on_missed,
            refused=self._on_refused,
        )
        self._refusal: MagnetarError | None = None
        self._reads = ReadWatches(
            lambda watch, path, context: self._loop.call_soon(watch, path, context=context)
        )

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        state = super().state
        if state is SessionState.CONNECTED and not self._sees():
            return SessionState.SUSPENDED
        return state

    def _sees(self) -> bool:
        """Return whether the events of others' writes are recent enough."""
        return self._loop.time() - self._seen <= SUSPECT_FRACTION * self._timeout_s

    # Life of the session

    async def start(self, timeout_s: float) -> None:
        """Open a session. Raises StoreUnavailableError when no member answers in time, SettingsError when etcd refuses
        the user; the caller closes the store then."""
        self._tasks.spawn("watch", restarting("watch of etcd", self._stream.run))
        self._tasks.spawn("session", restarting("session with etcd", self._keep))
        deadline = self._loop.time() + timeout_s
        while self._state is not SessionState.CONNECTED:
            if self._refusal is not None:
                raise SettingsError(
                    f"metadata_url, metadata_user: {self._refusal}"
                ) from self._refusal
            if self._loop.time() >= deadline:
                hosts = ",".join(self._members)
                raise StoreUnavailableError(f"no etcd at {hosts} within {timeout_s} s")
            with suppress(StoreUnavailableError):
                await self._wait_connected(min(deadline, self._loop.time() + 0.1))

    async def _keep(self) -> None:
        """Keep the session alive, and open the next one after its end."""
        while True:
            try:
                if self._session_id == 0:
                    await self._grant()
                else:
                    await self._prove(self._session_id)
            except MagnetarError as error:
                log.debug("session not proven error=%r", error)
                if isinstance(error, AccessError | EtcdRefusedError):
                    self._on_refused(error)
            self._check()
            self._wake.clear()
            healthy = self._state is SessionState.CONNECTED
            period = self._timeout_s / 6 if healthy else min(self._timeout_s / 6, 0.2)
            with suppress(TimeoutError):
                async with asyncio.timeout(period):
                    await self._wake.wait()

    async def _grant(self) -> None:
        """Open a session."""
        sent = self._loop.time()
        request = {"TTL": str(self._lease_s)}
        answer = await self._gateway.call("lease/grant", request, repeatable=True)
        session_id, lease_s = number(answer, "ID"), number(answer, "TTL")
        if session_id <= 0 or lease_s <= 0:
            raise MalformedError("a lease without an id or a time")
        self._session_id = session_id
        self._timeout_s = float(lease_s)
        self._proof = sent
        self._refusal = None

    async def _prove(self, session_id: int) -> None:
        """Renew the lease and prove that the leader which renewed it had a quorum then."""
        sent = self._loop.time()
        request = {"ID": str(session_id)}
        answer = await self._gateway.call("lease/keepalive", request, repeatable=True)
        renewal = part(answer, "result")
        if number(renewal, "TTL") <= 0:
            self._end(SessionState.EXPIRED, session_id)
            return
        key = self._full("/")
        read = await self._gateway.call(
            "kv/range", range_request(key, keys_only=True), repeatable=True
        )
        if _term(renewal) == _term(read) and session_id == self._session_id:
            self._proof = max(self._proof, sent)

    def _check(self) -> None:
        """Adopt the state that the proofs give now, and look again when they may give another."""
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        silence = self._silence()
        if self._session_id and silence > EXPIRE_FRACTION:
            self._end(SessionState.EXPIRED, self._session_id)
        elif self._session_id and silence <= SUSPECT_FRACTION and self._sees():
            self._set_state(SessionState.CONNECTED)
        elif self._state is SessionState.CONNECTED:
            self._set_state(SessionState.SUSPENDED)
        suspect = min(self._proof, self._seen) + SUSPECT_FRACTION * self._timeout_s
        suspect_s = suspect - self._loop.time()
        connected = self._state is SessionState.CONNECTED and suspect_s > 0
        delay_s = suspect_s if connected else self._until_expiry()
        self._timer = self._loop.call_later(delay_s + 0.001, self._check)

    def _end(self, state: SessionState, session_id: int) -> None:
        """End the session here, and its lease at etcd if that can be reached; the next one is opened at once."""
        if session_id == self._session_id:
            self._session_id = 0
            self._set_state(state)
            self._wake.set()
            self._tasks.spawn("revoke", self._revoke(session_id))

    async def _revoke(self, session_id: int) -> None:
        request = {"ID": str(session_id)}
        with suppress(MagnetarError):  # else it ends by its time
            await self._gateway.call("lease/revoke", request, repeatable=True)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._watches.clear()
        self._state = SessionState.SUSPENDED
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)
        await self._tasks.close()
        if self._session_id:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S_MAX):
                    await self._revoke(self._session_id)
        self._gateway.close()

    # Changes

    def _on_opened(self, sent: float) -> None:
        self._seen = max(self._seen, sent)
        self._refusal = None
        self._check()

    def _on_missed(self, reason: str) -> None:
        """Start as after a lost connection: watchers are notified, and caches drop what they have."""
        log.warning("changes of the metadata were missed reason=%s", reason)
        self._seen = -math.inf
        self._check()

    def _on_refused(self, error: MagnetarError) -> None:
        if self._refusal is None:
            log.warning("etcd refuses error=%s", error)
        self._refusal = error

    def _on_change(self, change: KeyChange) -> None:
        path = change.key[len(self._chroot) :]
        self._note_change(path, change.revision)
        while change.listed and path != "/":  # an implied parent came or went with it
            path = parent_of(path)
            self._note_change(path, change.revision)

    def _note_change(self, path: str, revision: int) -> None:
        self._reads.changed(path, revision)
        self._schedule_watchers(path)

    def unwatch(self, path: str, watch: Watch) -> None:
        self._reads.remove(path, watch)

    def _set_state(self, state: SessionState) -> None:
        if state is not self._state:
            self._reads.clear()
        super()._set_state(state)

    # Calls

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        node = await self._node("get", path, watch, keys_only=False)
        if node is None:
            raise NoNodeError(f"get {path}")
        return node.value, node.stat

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        # Answered by quorum: ledgers are deleted when a node is missing (I28).
        node = await self._node("exists", path, watch, keys_only=True)
        return None if node is None else node.stat

    async def _node(
        self, op: str, path: str, watch: Watch | None, *, keys_only: bool
    ) -> EtcdKey | None:
        check_path(path)
        request = range_request(self._full(path), keys_only=keys_only)
        answer = await self._call(f"{op} {path}", "kv/range", request, watch=(path, watch))
        keys = keys_of(answer)
        return keys[0] if keys else None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        check_path(path)
        key, call = self._full(path), f"children {path}"
        for _ in range(LISTING_ATTEMPTS):
            ranges = [range_request(key, keys_only=True), self._page(path)]
            answer = await self._read(call, ranges, watch=(path, watch))
            (node, first) = parts(answer, "responses")
            names = await self._list(call, path, first, revision_of(answer))
            if names is None:
                continue
            if not names and path != "/" and not keys_of(part(node, "response_range")):
                raise NoNodeError(call)
            return names
        raise StoreUnavailableError(f"{call}: compacted while it was read")

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        check_paths(paths, parent)
        call = f"get_all {next(iter(paths), parent or '/')}"
        for _ in range(LISTING_ATTEMPTS):
            result = await self._get_all(call, paths, parent)
            if result is not None:
                return result
        raise StoreUnavailableError(f"{call}: compacted while it was read")

    async def _get_all(
        self, call: str, paths: Sequence[str], parent: str | None
    ) -> tuple[list[Found], list[str]] | None:
        """Read at one revision; None when it was compacted meanwhile."""
        revision = 0
        listed: JsonObject = {}
        nodes: list[Found] = []
        bounds = [*range(0, len(paths), OPERATIONS_MAX), len(paths)] if paths else [0, 0]
        for start, end in pairwise(bounds):
            keys = [self._full(path) for path in paths[start:end]]
            ranges = [range_request(key, revision=revision) for key in keys]
            if parent is not None and not start:
                ranges.append(self._page(parent))
            if not ranges:
                return [], []
            try:
                answer = await self._read(call, ranges)
            except _CompactedError:
                return None
            revision = revision or revision_of(answer)
            if parent is not None and not start:
                listed = parts(answer, "responses")[-1]
            rows = ranges_of(answer)[: len(keys)]
            nodes += [(row[0].value, row[0].stat) if row else None for row in rows]
        if parent is None:
            return nodes, []
        names = await self._list(call, parent, listed, revision)
        return None if names is None else (nodes, names)

    def _page(self, path: str, start: str = "", revision: int = 0) -> JsonObject:
        first, end = below(self._base(path))
        return range_request(
            start or first, end, keys_only=True, limit=PAGE_KEYS, revision=revision
        )

    async def _list(
        self, call: str, path: str, first: JsonObject, revision: int
    ) -> list[str] | None:
        """Return the sorted names of the children, from the first page on; None when the revision was compacted.

        The keys below a child need not be read once its name is known: the next page begins behind them.
        """
        prefix, _ = below(self._base(path))
        names: dict[str, None] = {}
        page = part(first, "response_range")
        while True:
            keys = keys_of(page)
            names.update(dict.fromkeys(key.key[len(prefix) :].partition("/")[0] for key in keys))
            if not page.get("more") or not keys:
                return sorted(names)
            name, deeper, _ = keys[-1].key[len(prefix) :].partition("/")
            start = f"{prefix}{name}0" if deeper else f"{prefix}{name}\0"
            try:
                answer = await self._read(call, [self._page(path, start, revision)])
            except _CompactedError:
                return None
            page = part(parts(answer, "responses")[0], "response_range")

    async def _create(self, path: str, value: bytes, ephemeral: bool, sequence: bool) -> str:
        parent = parent_of(path)
        if sequence:
            path = f"{path}{await self._next_number(parent):010d}"
        key, parent_key = self._full(path), self._full(parent)
        put: JsonObject = {"key": encoded(key), "value": encoded(value)}
        implied = False
        while True:
            session_id = self._session_id
            if ephemeral:
                put["lease"] = str(session_id)
            conditions = [is_absent(key)]
            if implied:
                conditions.append(has_children(parent_key))
            elif parent != "/":
                conditions += [
                    is_present(parent_key),
                    compare(parent_key, "LEASE", "EQUAL", 0),
                ]
            why = [
                range_request(key, keys_only=True),
                range_request(parent_key, keys_only=True),
                range_request(*below(self._base(parent)), keys_only=True, limit=1),
            ]
            try:
                (node, above, beside), done = await self._transaction(
                    f"create {path}", conditions, [{"request_put": put}], why
                )
            except _LeaseEndedError:
                self._end(SessionState.EXPIRED, session_id)
                raise
            if done:
                return path
            if node or path == "/":
                raise NodeExistsError(path)
            if above and above[0].lease:
                raise MisuseError(f"{parent} is ephemeral and cannot have children")
            if not above and not beside:
                raise NoNodeError(f"create {path}: there is no {parent}")
            implied = not above

    async def _next_number(self, parent: str) -> int:
        """Return the next number of a sequence: the version of its parent, which is written, as Apache Pulsar does."""
        if parent == "/":
            raise MisuseError("a sequence needs a parent below the root")
        key = self._full(parent)
        put = {
            "key": encoded(key),
            "ignore_value": True,
            "ignore_lease": True,
            "prev_kv": True,
        }
        call = f"create a sequence in {parent}"
        body = {"compare": [is_present(key)], "success": [{"request_put": put}]}
        answer = await self._call(call, "kv/txn", body, repeatable=False)
        if not answer.get("succeeded"):
            raise NoNodeError(f"{call}: there is no such node")
        (response,) = parts(answer, "responses")
        return number(part(part(response, "response_put"), "prev_kv"), "version")

    async def _create_parents(self, path: str) -> None:
        """Create an empty persistent node and its missing ancestors, in one transaction."""
        steps: list[JsonObject] = []
        while path != "/":
            key = self._full(path)
            put = {"request_put": {"key": encoded(key), "value": ""}}
            steps.append({"request_txn": {"compare": [is_absent(key)], "success": [put]}})
            path = parent_of(path)
        for start in range(0, len(steps), OPERATIONS_MAX):
            body = {"success": steps[start : start + OPERATIONS_MAX]}
            await self._call("create parents", "kv/txn", body, repeatable=False)

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        check_path(path)
        check_value(path, value)
        key = self._full(path)
        # The node keeps its lease, which a put ends otherwise.
        put = {"key": encoded(key), "value": encoded(value), "ignore_lease": True}
        read = range_request(key, keys_only=True)
        (*_, node), done = await self._transaction(
            f"put {path}",
            [_has_version(key, version)],
            [{"request_put": put}, {"request_range": read}],
            [read],
        )
        if done:
            return node[0].stat
        if node and version != ANY_VERSION:
            raise BadVersionError(f"{path} is at version {node[0].stat.version}, not {version}")
        raise NoNodeError(f"put {path}")

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        check_path(path)
        if path == "/":
            raise MisuseError("the root cannot be deleted")
        key = self._full(path)
        ranges, done = await self._transaction(
            f"delete {path}",
            [_has_version(key, version), is_childless(key)],
            [{"request_delete_range": {"key": encoded(key)}}],
            [range_request(key, keys_only=True)],
        )
        if done:
            return
        (node,) = ranges
        if not node:
            raise NoNodeError(f"delete {path}")
        if version not in (ANY_VERSION, node[0].stat.version):
            raise BadVersionError(f"{path} is at version {node[0].stat.version}, not {version}")
        raise NotEmptyError(f"{path} has children")

    def _base(self, path: str) -> str:
        """Return the key whose ``/`` begins the keys below a path."""
        return self._chroot if path == "/" else self._chroot + path

    def _full(self, path: str) -> str:
        """Return the key of a path."""
        return self._base(path) or "/"

    async def _read(
        self,
        call: str,
        ranges: list[JsonObject],
        *,
        watch: tuple[str, Watch | None] = ("/", None),
    ) -> JsonObject:
        """Return the answer to several ranges at one revision. Raises _CompactedError."""
        body = {"success": [{"request_range": item} for item in ranges]}
        answer = await self._call(call, "kv/txn", body, watch=watch)
        if len(parts(answer, "responses")) != len(ranges):
            raise StoreUnavailableError(f"{call}: malformed answer")
        return answer

    async def _transaction(
        self,
        call: str,
        conditions: list[JsonObject],
        operations: list[JsonObject],
        otherwise: list[JsonObject],
    ) -> tuple[list[list[EtcdKey]], bool]:
        """Carry out ``operations`` if all conditions hold, else read the ranges ``otherwise``.

        Return the keys of each response and whether the conditions held.
        """
        failure = [{"request_range": item} for item in otherwise]
        body = {"compare": conditions, "success": operations, "failure": failure}
        answer = await self._call(call, "kv/txn", body, repeatable=False)
        ranges = ranges_of(answer)
        return ranges + [[]] * (len(otherwise) - len(ranges)), answer.get("succeeded") is True

    async def _call(
        self,
        call: str,
        method: str,
        body: JsonObject,
        *,
        repeatable: bool = True,
        watch: tuple[str, Watch | None] = ("/", None),
    ) -> JsonObject:
        """Call a method of the gateway on the connected session, within the time limit of requests."""
        deadline = self._loop.time() + self._request_timeout_s
        await self._wait_connected(deadline)
        path, callback = watch
        reading = None if callback is None else self._reads.begin(path, callback)
        revision = 0
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._gateway.call(method, body, repeatable=repeatable)
            revision = revision_of(answer)
            return answer
        except TimeoutError:
            reason = f"{call}: no answer within {self._request_timeout_s} s"
            raise StoreUnavailableError(reason) from None
        except StoreUnavailableError as error:
            raise StoreUnavailableError(f"{call}: {error}") from error
        except AccessError as error:
            self._on_refused(error)
            raise StoreUnavailableError(f"{call}: {error}") from error
        except EtcdRefusedError as error:
            raise self._translated(error, call) from error
        finally:
            if callback is not None and reading is not None:
                self._reads.end(path, callback, reading, revision)

    def _translated(self, error: EtcdRefusedError, call: str) -> Exception:
        reason = f"{call}: {error}"
        if error.code == NOT_FOUND and "lease" in str(error):
            return _LeaseEndedError(reason)
        if error.code == OUT_OF_RANGE and "compacted" in str(error):
            return _CompactedError(reason)
        if error.code in (INVALID_ARGUMENT, PERMISSION_DENIED):
            return MisuseError(reason)
        return StoreUnavailableError(reason)


class _LeaseEndedError(SessionExpiredError):
    """The lease of an ephemeral node has ended."""


class _CompactedError(StoreUnavailableError):
    """The revision that a read asked for is compacted."""


def _has_version(key: str, version: int) -> JsonObject:
    if version == ANY_VERSION:
        return is_present(key)
    return compare(key, "VERSION", "EQUAL", version + 1)


def _term(answer: JsonObject) -> int:
    return number(part(answer, "header"), "raft_term")
