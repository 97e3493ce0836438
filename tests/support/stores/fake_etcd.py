"""An etcd in memory behind its JSON gateway, on a network of pipes in virtual time, with faults.

It has what the store uses of etcd: ranges, puts, deletions, transactions with comparisons, leases, watches from a
revision with compaction, a user. All members serve one state; each can be away, silent, slow, or without a leader.
"""

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11

from engine.net.listener import Listener
from engine.net.network import Network

Json = dict[str, Any]


def text_of(data: str) -> str:
    return base64.b64decode(data).decode()


def base64_of(data: str) -> str:
    return base64.b64encode(data.encode()).decode()


@dataclass(slots=True)
class Row:
    value: str
    created: int
    modified: int
    version: int
    lease: int

    def message(self, key: str, *, keys_only: bool = False) -> Json:
        fields = {
            "create_revision": self.created,
            "mod_revision": self.modified,
            "version": self.version,
            "lease": self.lease,
        }
        message: Json = {name: str(number) for name, number in fields.items() if number}
        if self.value and not keys_only:
            message["value"] = self.value
        return {"key": base64_of(key), **message}


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: int, text: str) -> None:
        self.status = status
        self.body = json.dumps({"error": text, "message": text, "code": code}).encode()


class FakeEtcd:
    """State that all members serve, and the faults of each. Created inside a running loop."""

    def __init__(self, network: Network, members: int = 1) -> None:
        self.rows: dict[str, Row] = {}
        self.revision = 1
        self.compacted = 0
        self.term = 2
        self.events: list[tuple[int, str, Json]] = []
        self.leases: dict[int, tuple[float, int]] = {}  # when each ends, and its seconds
        self.users: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.calls: list[tuple[int, str]] = []
        self.on_call: Callable[[int, str, Json], bytes | None] = lambda *_: None
        """Returns the bytes that are sent instead of an answer; it may raise Refusal."""
        self._loop = asyncio.get_running_loop()
        self._next_lease = 1000
        self._written = False
        self.members = [Member(self, number, network) for number in range(members)]

    async def start(self) -> list[str]:
        """Listen and return the URLs of the members."""
        return [await member.start() for member in self.members]

    def write(self, key: str, value: str = "") -> None:
        """Write a key as another client, which writes no parents."""
        self._written = False
        self._put({"key": base64_of(key), "value": base64_of(value)})

    def compact(self) -> None:
        """Forget the history up to now."""
        self.compacted = self.revision
        self.events = []

    def end_leases(self) -> None:
        """End the leases whose time is over."""
        for lease, (end, _) in list(self.leases.items()):
            if end <= self._loop.time():
                self.revoke(lease)

    def revoke(self, lease: int) -> None:
        del self.leases[lease]
        keys = [key for key, row in self.rows.items() if row.lease == lease]
        if keys:
            self.revision += 1
        for key in keys:
            self._delete(key)

    # Calls

    def answer(self, method: str, body: Json, token: str) -> Json:
        self.end_leases()
        if self.users and method != "auth/authenticate" and token not in self.tokens:
            text = "invalid auth token" if token else "user name is empty"
            raise Refusal(401 if token else 400, 16 if token else 3, f"etcdserver: {text}")
        message: Json = {
            "kv/range": self._range,
            "kv/txn": self._transaction,
            "lease/grant": self._grant,
            "lease/keepalive": self._renew,
            "lease/revoke": self._revoke,
            "auth/authenticate": self._authenticate,
        }[method](body)
        return self.header() | message

    def header(self) -> Json:
        return {"header": {"revision": str(self.revision), "raft_term": str(self.term)}}

    def _authenticate(self, body: Json) -> Json:
        if not self.users:
            raise Refusal(400, 9, "etcdserver: authentication is not enabled")
        if self.users.get(body["name"]) != body["password"]:
            raise Refusal(400, 3, "etcdserver: authentication failed, invalid user ID or password")
        token = f"token.{len(self.calls)}"
        self.tokens.add(token)
        return {"token": token}

    def _grant(self, body: Json) -> Json:
        self._next_lease += 1
        seconds = max(int(body["TTL"]), 2)
        self.leases[self._next_lease] = self._loop.time() + seconds, seconds
        return {"ID": str(self._next_lease), "TTL": str(seconds)}

    def _renew(self, body: Json) -> Json:
        lease = int(body["ID"])
        result: Json = {**self.header(), "ID": body["ID"]}
        if lease in self.leases:
            seconds = self.leases[lease][1]
            self.leases[lease] = self._loop.time() + seconds, seconds
            result["TTL"] = str(seconds)
        return {"result": result}

    def _revoke(self, body: Json) -> Json:
        if int(body["ID"]) not in self.leases:
            raise Refusal(404, 5, "etcdserver: requested lease not found")
        self.revoke(int(body["ID"]))
        return {}

    def _keys(self, request: Json) -> list[str]:
        first = text_of(request["key"])
        if "range_end" not in request:
            return [first] if first in self.rows else []
        end = text_of(request["range_end"])
        return sorted(key for key in self.rows if first <= key < end)

    def _range(self, request: Json) -> Json:
        revision = int(request.get("revision", 0))
        if revision and revision < self.compacted:
            text = "etcdserver: mvcc: required revision has been compacted"
            raise Refusal(400, 11, text)
        keys = self._keys(request)
        limit = int(request.get("limit", 0)) or len(keys)
        keys_only = bool(request.get("keys_only"))
        message: Json = {}
        if keys:
            rows = [self.rows[key].message(key, keys_only=keys_only) for key in keys[:limit]]
            message = {"kvs": rows, "count": str(len(keys))}
        return {**message, "more": True} if len(keys) > limit else message

    def _transaction(self, request: Json, *, nested: bool = False) -> Json:
        holds = all(map(self._holds, request.get("compare", [])))
        steps = request.get("success" if holds else "failure", [])
        if len(steps) > 128:
            raise Refusal(400, 3, "etcdserver: too many operations in txn request")
        if not nested:
            self._written = False
        responses: list[Json] = []
        for step in steps:
            (kind, inner), *_ = step.items()
            work = {
                "request_range": self._range,
                "request_put": self._put,
                "request_delete_range": self._delete_range,
                "request_txn": lambda body: self._transaction(body, nested=True),
            }[kind]
            responses.append({kind.replace("request", "response"): work(inner)})
        message: Json = {"succeeded": True} if holds else {}
        return {**message, "responses": responses} if responses else message

    def _holds(self, comparison: Json) -> bool:
        field = {"CREATE": "created", "VERSION": "version", "LEASE": "lease"}[comparison["target"]]
        name = {"CREATE": "create_revision"}.get(comparison["target"], field)
        wanted = int(comparison.get(name, 0))
        numbers = [getattr(self.rows[key], field) for key in self._keys(comparison)] or [0]
        if comparison["result"] == "EQUAL":
            return all(number == wanted for number in numbers)
        return all(number > wanted for number in numbers)

    def _write(self) -> int:
        """Return the revision of a write: one for all writes of a transaction."""
        if not self._written:
            self.revision += 1
            self._written = True
        return self.revision

    def _put(self, request: Json) -> Json:
        key, lease = text_of(request["key"]), int(request.get("lease", 0))
        before = self.rows.get(key)
        if lease and lease not in self.leases:
            raise Refusal(404, 5, "etcdserver: requested lease not found")
        if before is None and (request.get("ignore_value") or request.get("ignore_lease")):
            raise Refusal(400, 3, "etcdserver: key not found")
        revision = self._write()
        row = Row(request.get("value", ""), revision, revision, 1, lease)
        message: Json = {}
        if before is not None:
            row.created, row.version = before.created, before.version + 1
            row.value = before.value if request.get("ignore_value") else row.value
            row.lease = before.lease if request.get("ignore_lease") else row.lease
            message = {"prev_kv": before.message(key)} if request.get("prev_kv") else {}
        self.rows[key] = row
        self._record(key, {"kv": row.message(key)})
        return message

    def _delete_range(self, request: Json) -> Json:
        keys = self._keys(request)
        if keys:
            self._write()
        for key in keys:
            self._delete(key)
        return {"deleted": str(len(keys))} if keys else {}

    def _delete(self, key: str) -> None:
        del self.rows[key]
        deleted = {"key": base64_of(key), "mod_revision": str(self.revision)}
        self._record(key, {"type": "DELETE", "kv": deleted})

    def _record(self, key: str, event: Json) -> None:
        self.events.append((self.revision, key, event))
        for member in self.members:
            self._loop.call_soon(member.report)


class Member:
    """One member: its listener, its open watches and its faults."""

    def __init__(self, etcd: FakeEtcd, number: int, network: Network) -> None:
        self.etcd = etcd
        self.number = number
        self.silent = False
        self.delay_s = 0.0
        """Time before a request is carried out; ``reply_delay_s``: before its answer is sent."""
        self.reply_delay_s = 0.0
        self.reports = True
        self.watches: list[_Connection] = []
        self.connections: dict[_Connection, None] = {}
        self._network = network
        self._port = 0
        self._listener: Listener | None = None

    async def start(self) -> str:
        listener = Listener(self._network, lambda: _Connection(self), connections_max=0)
        await listener.start("127.0.0.1", self._port)
        self._listener, self._port = listener, listener.port
        return self.url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def leave(self) -> None:
        """Refuse connections, and end those that are open."""
        assert self._listener is not None
        for connection in list(self.connections):
            connection.abort()
        await self._listener.drain(0.0)

    def mute_watches(self) -> None:
        """Report nothing more to the open watches, as behind a lost connection whose end did not arrive."""
        self.watches.clear()

    def end_watches(self) -> None:
        for watch in list(self.watches):
            watch.abort()

    def report(self) -> None:
        for watch in list(self.watches):
            watch.report()


class _Connection(asyncio.Protocol):
    on_gone: Callable[[], None] | None = None

    def __init__(self, member: Member) -> None:
        self._member = member
        self._etcd = member.etcd
        self._http = h11.Connection(h11.SERVER)
        self._request: Json = {}
        self._method = self._token = ""
        self._body = b""
        self._watched = ("", "")
        self._next = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._member.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._member.connections.pop(self, None)
        if self in self._member.watches:
            self._member.watches.remove(self)
        if self.on_gone is not None:
            self.on_gone()

    def abort(self) -> None:
        self._transport.abort()

    close = abort

    def data_received(self, data: bytes) -> None:
        self._http.receive_data(data)
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._method = event.target.decode().removeprefix("/v3/")
                headers = {name.decode(): value.decode() for name, value in event.headers}
                self._token = headers.get("authorization", "")
                self._body = b""
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                asyncio.get_running_loop().call_later(self._member.delay_s, self._serve)
            else:
                return

    def _serve(self) -> None:
        etcd, body = self._etcd, json.loads(self._body)
        if self._transport.is_closing() or self._member.silent:
            return
        etcd.calls.append((self._member.number, self._method))
        try:
            scripted = etcd.on_call(self._member.number, self._method, body)
            if scripted is not None:
                self._transport.write(scripted)
                self._transport.close()
            elif self._method == "watch":
                self._watch(body["create_request"])
            else:
                answer = json.dumps(etcd.answer(self._method, body, self._token)).encode()
                delay_s = self._member.reply_delay_s
                asyncio.get_running_loop().call_later(delay_s, self._send, 200, answer)
        except Refusal as refusal:
            self._send(refusal.status, refusal.body)

    def _send(self, status: int, body: bytes) -> None:
        if self._member.silent:
            return
        self._write(h11.Response(status_code=status, headers=[("Content-Length", str(len(body)))]))
        self._write(h11.Data(data=body))
        self._write(h11.EndOfMessage())
        if not self._transport.is_closing():
            self._http.start_next_cycle()

    def _write(self, event: Any) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._http.send(event) or b"")

    # Watches

    def _watch(self, request: Json) -> None:
        etcd = self._etcd
        self._write(h11.Response(status_code=200, headers=[("Transfer-Encoding", "chunked")]))
        if etcd.users and self._token not in etcd.tokens:
            reason = "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"
            self.line({"created": True, "canceled": True, "cancel_reason": reason})
            return
        self._watched = text_of(request["key"]), text_of(request["range_end"])
        self._next = int(request.get("start_revision", 0)) or etcd.revision + 1
        self.line({**etcd.header(), "created": True})
        self._member.watches.append(self)
        self.report()

    def line(self, result: Json) -> None:
        self.raw(json.dumps({"result": result}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self._write(h11.Data(data=data))

    def report(self) -> None:
        """Send what has happened since the last report."""
        etcd, (first, end) = self._etcd, self._watched
        if self._member.silent or not self._member.reports:
            return
        if self._next <= etcd.compacted and self._next <= etcd.revision:
            self.line({"canceled": True, "compact_revision": str(etcd.compacted)})
            self._member.watches.remove(self)
            return
        by_revision: dict[int, list[Json]] = defaultdict(list)
        for revision, key, event in etcd.events:
            if revision >= self._next and first <= key < end:
                by_revision[revision].append(event)
        for events in by_revision.values():
            self.line({**etcd.header(), "events": events})
        self._next = etcd.revision + 1
