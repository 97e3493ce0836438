"""The gateway in this process: its ASGI application driven with raw targets, over a real store in memory."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from admin_ui.audit.audit_writer import AuditWriter
from admin_ui.models import AuditEntry
from engine.admin.client import AdminClient
from engine.metadata.cached import CachedStore
from engine.metadata.memory import MemoryServer
from engine.metadata.records import decode_json
from engine.net.network import LoopNetwork
from engine.tenancy.namespaces import bootstrap
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Application, Clusters, serving
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.clusters import cluster_of

HOST = "127.0.0.1:8080"


async def audited(status: int) -> None:
    """Return when the audit log has a change with ``status``."""
    async with asyncio.timeout(60):
        while not await AuditEntry.objects.filter(status=status).aexists():
            await asyncio.sleep(0.01)


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()
    """The values of Set-Cookie."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def _drive(application: Application, scope: dict[str, Any], body: bytes) -> Answer:
    sent: list[dict[str, Any]] = []
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, incoming.get, send)
    start = sent[0]
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    content = b"".join(part.get("body", b"") for part in sent[1:])
    cookies = tuple(
        value.decode("latin-1") for name, value in start["headers"] if name.lower() == b"set-cookie"
    )
    return Answer(start["status"], headers, content, cookies)


class Gateway:
    """A gateway that serves these clusters; a call of it is one HTTP request."""

    def __init__(self, default: Cluster, *others: Cluster) -> None:
        from gateway.asgi import application

        self.clusters = Clusters(default, *others)
        self.application = serving(self.clusters, application)

    def close(self) -> None:
        """End the thread of its audit log."""
        self.clusters.part(AuditWriter).close()

    def __call__(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        content_type: str | None = None,
        headers: dict[str, str] | None = None,
        client: str = "127.0.0.1",
    ) -> Answer:
        """Answer a request with ``target`` exactly as given. A body that is no bytes is sent as JSON without a
        Content-Type, unless one is given."""
        scope, data = scope_of(method, target, body, content_type, headers)
        scope["client"] = (client, 40000)
        return asyncio.run(_drive(self.application, scope, data))

    async def read(self, target: str, headers: dict[str, str]) -> Answer:
        """Answer a GET on the caller's loop."""
        scope, data = scope_of("GET", target, None, None, headers)
        return await _drive(self.application, scope, data)


def scope_of(
    method: str,
    target: str,
    body: Any,
    content_type: str | None,
    headers: dict[str, str] | None,
) -> tuple[dict[str, Any], bytes]:
    """Return the ASGI scope of a request, and its body."""
    path, _, query = target.partition("?")
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    fields = {"host": HOST, **(headers or {})}
    if content_type is not None:
        fields["content-type"] = content_type
    if data:
        fields["content-length"] = str(len(data))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8080),
    }
    return scope, data


@contextmanager
def memory_link(cluster: str = "standalone") -> Iterator[EngineLink]:
    """Yield a link on a cached metadata store in memory that holds a fresh instance and no broker. At the end, check
    that no caller changed what the cache returned."""
    stores: list[CachedStore] = []

    async def connect() -> Engine:
        store = CachedStore(MemoryServer().session())
        stores.append(store)
        await bootstrap(
            store,
            cluster=cluster,
            broker_url="pulsar://127.0.0.1:6650",
            web_url="http://127.0.0.1:8080",
        )
        admin = AdminClient(store, LoopNetwork(), "a-token-for-tests-only", timeout_s=2.0)
        return Engine(store, admin, cluster)

    link = EngineLink(connect)
    yield link
    for store in stores:
        for path, entry in store._entries.items():
            if ("get", decode_json) in entry.answers:
                value, _ = entry.answers["get"]
                assert entry.answers["get", decode_json] == decode_json(value, path), path
    link.close()


@pytest.fixture
def engine() -> Iterator[EngineLink]:
    """The link of ``memory_link``."""
    with memory_link() as link:
        yield link


@pytest.fixture
def cluster(engine: EngineLink) -> Cluster:
    """The cluster behind ``engine``."""
    return cluster_of(engine)


@pytest.fixture
def gateway(cluster: Cluster) -> Gateway:
    """A gateway of the cluster; its database is not set up."""
    return Gateway(cluster)


@pytest.fixture
def call(gateway: Gateway, transactional_db: None) -> Iterator[Gateway]:
    """``call(method, target, body=None, …)`` on the gateway."""
    yield gateway
    gateway.close()
    asyncio.run(sync_to_async(let_go_of_connections)())


def let_go_of_connections() -> None:
    """Close the connections of the thread of asynchronous database calls, which outlives the test."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "postgresql":
            connection.close()  # back to the pool
        del connections[connection.alias]
