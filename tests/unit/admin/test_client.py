"""The client of the brokers' administration in TLS, against servers made of the shipped HTTP server."""

import json
from pathlib import Path

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.admin.client import AdminClient
from engine.base.errors import NotReady
from engine.base.names import TopicName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from tests.support.net.certificates import Authority


class Broker:
    """A server that answers every call with ``answer``, on one port without and one with TLS."""

    def __init__(self) -> None:
        self.answer: tuple[int, object] = (200, {"result": []})
        self.called = 0
        self.http = HttpServer(LoopNetwork(), self._handle, connections_max=0)
        self.url = self.url_tls = ""

    async def start(self, files: ServerFiles) -> None:
        self.url = f"http://127.0.0.1:{await self.http.listen('127.0.0.1', 0)}"
        port = await self.http.listen("127.0.0.1", 0, tls=files.context())
        self.url_tls = f"https://127.0.0.1:{port}"

    async def _handle(self, request: Request) -> Response:
        self.called += 1
        return json_response(*self.answer)


async def test_brokers_are_called_in_tls_only_where_that_is_set(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = ServerFiles(*authority.issue("broker", "127.0.0.1"))
    first, owner = Broker(), Broker()
    for broker in (first, owner):
        await broker.start(files)
    store = MemoryServer().session()
    for name, record in (
        ("a:1", {"webServiceUrl": first.url, "webServiceUrlTls": first.url_tls}),
        ("without:1", {"webServiceUrl": owner.url}),
    ):
        value = json.dumps(record).encode()
        await store.create(paths.broker(name), value, make_parents=True)
    admin = AdminClient(store, LoopNetwork(), "token", tls=ClientFiles(authority.cert).context)
    in_tls, without = await admin.brokers()
    assert (in_tls.rpc_url, without.rpc_url) == (first.url_tls, "")
    assert await admin.call_on(in_tls, TOPICS, LoadedTopics()) == []
    with pytest.raises(NotReady, match="without:1 has no HTTP port with TLS"):
        await admin.call_on(without, TOPICS, LoadedTopics())
    first.answer = 307, {"location": owner.url, "locationTls": owner.url_tls}
    assert await admin.call(LAST_MESSAGE_ID, OnTopic(TopicName.parse("moved"))) == []
    assert owner.called == 1
    first.answer = 307, {"location": owner.url, "locationTls": ""}
    with pytest.raises(NotReady, match="has no HTTP port with TLS"):
        await admin.call(LAST_MESSAGE_ID, OnTopic(TopicName.parse("moved-again")))
    assert owner.called == 1
    admin.close()
    for broker in (first, owner):
        await broker.http.close()
