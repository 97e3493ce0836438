"""The gateway in this process: its ASGI application driven with raw targets, over a real store in memory."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connections

from admin_ui.audit import audit_writer
from admin_ui.models import AuditEntry
from engine.admin.client import AdminClient
from engine.metadata.cached import CachedStore
from engine.metadata.memory import MemoryServer
from engine.metadata.records import decode_json
from engine.net.network import LoopNetwork
from engine.tenancy.namespaces import bootstrap
from gateway.services import engine_link
from gateway.services.engine_link import Engine, EngineLink

HOST = "127.0.0.1:8080"


async def audited(status: int) -> None:
    """Returns when a change has ended so. A table being written answers no other reader of this process."""
    async with asyncio.timeout(60):
        while True:
            try:
                if await AuditEntry.objects.filter(status=status).aexists():
                    return
            except OperationalError:
                pass
            await asyncio.sleep(0.01)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def _drive(scope: dict[str, Any], body: bytes) -> Answer:
    from gateway.asgi import application

    sent: list[dict[str, Any]] = []
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, incoming.get, send)
    start = sent[0]
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], headers, b"".join(part.get("body", b"") for part in sent[1:]))


def request(
    method: str,
    target: str,
    body: Any = None,
    *,
    content_type: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One HTTP request with ``target`` exactly as given. A body that is no bytes is sent as JSON without a
    Content-Type, unless one is given."""
    from urllib.parse import unquote

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
    return asyncio.run(_drive(scope, data))


@pytest.fixture
def engine() -> Iterator[EngineLink]:
    """A link on a cached metadata store in memory that holds a fresh instance and no broker. Nobody may have
    changed what the cache gave him."""
    stores: list[CachedStore] = []

    async def connect() -> Engine:
        store = CachedStore(MemoryServer().session())
        stores.append(store)
        await bootstrap(
            store,
            cluster="standalone",
            broker_url="pulsar://127.0.0.1:6650",
            web_url="http://127.0.0.1:8080",
        )
        return Engine(
            store, AdminClient(store, LoopNetwork(), "a-token-for-tests-only", timeout_s=2.0)
        )

    link = EngineLink(connect)
    engine_link.install(link)
    yield link
    for store in stores:
        for path, entry in store._entries.items():
            if ("get", decode_json) in entry.answers:
                value, _ = entry.answers["get"]
                assert entry.answers["get", decode_json] == decode_json(value, path), path
    link.close()  # first: what still runs on its loop would have another link opened
    engine_link.install(None)


@pytest.fixture
def call(engine: EngineLink, transactional_db: None) -> Iterator[Callable[..., Answer]]:
    """``call(method, target, body=None, …)`` on the gateway."""
    yield request
    audit_writer.close()
    asyncio.run(sync_to_async(let_go_of_connections)())


def let_go_of_connections() -> None:
    """The thread of asynchronous database calls outlives the test, its connection must not."""
    for connection in connections.all(initialized_only=True):
        del connections[connection.alias]
