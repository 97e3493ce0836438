"""The client of the brokers' administration in TLS, against servers made of the shipped HTTP server."""

import json
from pathlib import Path

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.bundles import BUNDLE_CUTS, SplitBundle
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
from engine.tenancy.namespaces import bootstrap, get_bundles
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


@pytest.mark.parametrize("encrypted", [False, True])
async def test_the_recorded_owner_is_called_first(tmp_path: Path, encrypted: bool) -> None:
    authority = Authority(tmp_path)
    files = ServerFiles(*authority.issue("broker", "127.0.0.1"))
    other, owner = Broker(), Broker()
    store = MemoryServer().session()
    await bootstrap(store, cluster="standalone", broker_url="b", web_url="w")
    for name, broker in (("a:1", other), ("b:1", owner)):
        await broker.start(files)
        record = {"webServiceUrl": broker.url, "webServiceUrlTls": broker.url_tls}
        value = json.dumps(record).encode()
        await store.create(paths.broker(name), value, make_parents=True)
    topic = TopicName.parse("x")
    bundle = (await get_bundles(store, topic.namespace)).of_topic(topic)
    urls = json.dumps({"httpUrl": owner.url, "httpUrlTls": owner.url_tls}).encode()
    path = paths.bundle_owner(str(topic.namespace), bundle.range)
    await store.create(path, urls, make_parents=True)
    tls = ClientFiles(authority.cert).context if encrypted else None
    admin = AdminClient(store, LoopNetwork(), "token", tls=tls)
    assert await admin.call(LAST_MESSAGE_ID, OnTopic(topic)) == []
    assert await admin.call(BUNDLE_CUTS, SplitBundle(topic.namespace, bundle.range)) == []
    assert (other.called, owner.called) == (0, 2)
    # Without a record any broker is asked, as before.
    await store.delete(path)
    again = AdminClient(store, LoopNetwork(), "token", tls=tls)
    assert await again.call(LAST_MESSAGE_ID, OnTopic(topic)) == []
    assert other.called == 1
    for client in (admin, again):
        client.close()
    for broker in (other, owner):
        await broker.http.close()
