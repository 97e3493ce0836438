"""The gateway's ASGI application on the loop of the test, over a store whose calls can be held."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from asgiref.sync import sync_to_async

from engine.admin.client import AdminClient
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.tenancy.namespaces import bootstrap
from gateway.clusters.registry import Application
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.clusters import cluster_of
from tests.support.admin.gateway_client import Gateway, let_go_of_connections

Message = dict[str, Any]
HOST = (b"host", b"127.0.0.1:8080")


class HeldStore:
    """A MetadataStore over another one whose calls wait while ``open`` is not set; ``waiting`` is when one does."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if name not in ("get", "children", "create", "put", "delete", "exists"):
            return attribute

        async def held(*args: Any, **named: Any) -> Any:
            if not self.open.is_set():
                self.waiting.set()
                await self.open.wait()
            return await attribute(*args, **named)

        return held


class Client:
    """A request, message by message as a server delivers it."""

    application: ClassVar[Application]
    """The application over ``store``."""

    def __init__(self, method: str, target: str, *headers: tuple[bytes, bytes]) -> None:
        path, _, query = target.partition("?")
        self.scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode("latin-1"), "root_path": "", "scheme": "http",
            "headers": [HOST, *headers], "client": ("127.0.0.1", 40000), "server": ("127.0.0.1", 8080),
        }  # fmt: skip
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.received = 0
        self.sent: list[Message] = []
        self.room = asyncio.Event()
        self.room.set()

    def say(self, body: bytes = b"", *, more: bool = False) -> "Client":
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})
        return self

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def _receive(self) -> Message:
        message = await self.incoming.get()
        self.received += 1
        return message

    async def _send(self, message: Message) -> None:
        await self.room.wait()
        self.sent.append(message)

    async def served(self) -> "Client":
        await self.application(self.scope, self._receive, self._send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        fields = self.sent[0]["headers"]
        return {name.decode().lower(): value.decode("latin-1") for name, value in fields}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


@pytest.fixture
async def store(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[HeldStore]:
    """The store of the gateway that ``Client`` calls."""
    held = HeldStore(MemoryServer().session())
    await bootstrap(
        held,
        cluster="standalone",
        broker_url="pulsar://127.0.0.1:6650",
        web_url="http://127.0.0.1:8080",
    )

    async def connect() -> Engine:
        return Engine(held, AdminClient(held, LoopNetwork(), "a-token-for-tests-only"))

    link = EngineLink(connect, asyncio.get_running_loop())
    gateway = Gateway(cluster_of(link))
    monkeypatch.setattr(Client, "application", staticmethod(gateway.application), raising=False)
    yield held
    held.open.set()
    await asyncio.to_thread(link.close)
    await asyncio.to_thread(gateway.close)
    await sync_to_async(let_go_of_connections)()
