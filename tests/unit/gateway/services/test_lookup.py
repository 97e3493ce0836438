"""A lookup is answered from metadata; brokers are requested only to take a bundle without an owner."""

import json
from collections.abc import Callable
from typing import Any

from engine.base.names import TopicName
from engine.metadata import paths
from engine.tenancy import topics
from engine.tenancy.namespaces import get_bundles
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.gateway_client import HOST

Call = Callable[..., Any]
NAME = TopicName.parse("persistent://public/default/t")
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


async def own(engine: Engine) -> None:
    await topics.create_missing(engine.store, NAME)
    bundle = (await get_bundles(engine.store, NAME.namespace)).of_topic(NAME)
    path = paths.bundle_owner(str(NAME.namespace), bundle.range)
    value = (
        b'{"nativeUrl":"pulsar://10.0.0.1:6650","httpUrl":"http://10.0.0.1:8081","disabled":false}'
    )
    await engine.store.create(path, value, make_parents=True)


def test_an_owner_is_answered_without_a_request_to_a_broker(call: Call, engine: EngineLink) -> None:
    engine.run(own)
    assert call("GET", LOOKUP).json == {
        "brokerUrl": "pulsar://10.0.0.1:6650",
        "httpUrl": f"http://{HOST}",
        "nativeUrl": "pulsar://10.0.0.1:6650",
        "brokerUrlSsl": "",
    }


def test_an_owner_that_serves_tls_is_answered_with_that_address(
    call: Call, engine: EngineLink
) -> None:
    async def own_in_tls(engine: Engine) -> None:
        await own(engine)
        bundle = (await get_bundles(engine.store, NAME.namespace)).of_topic(NAME)
        path = paths.bundle_owner(str(NAME.namespace), bundle.range)
        urls = {"nativeUrl": "pulsar://a:1", "nativeUrlTls": "pulsar+ssl://a:2"}
        await engine.store.put(path, json.dumps(urls).encode())

    engine.run(own_in_tls)
    answer = call("GET", LOOKUP).json
    assert (answer["brokerUrl"], answer["brokerUrlTls"]) == ("pulsar://a:1", "pulsar+ssl://a:2")


def test_without_an_owner_a_broker_is_requested(call: Call) -> None:
    answer = call("GET", LOOKUP)
    assert (answer.status, answer.json["reason"]) == (503, "No broker is available")


def test_a_namespace_that_does_not_exist_is_404(call: Call) -> None:
    assert call("GET", "/lookup/v2/topic/persistent/public/none/t").status == 404


OLD = TopicName.parse("persistent://public/standalone/ns/t")
OLD_LOOKUP = "/lookup/v2/destination/persistent/public/standalone/ns/t"


def test_a_name_in_four_parts_has_its_own_path(call: Call, engine: EngineLink) -> None:
    async def own_old(engine: Engine) -> None:
        await topics.create_missing(engine.store, OLD)
        bundle = (await get_bundles(engine.store, OLD.namespace)).of_topic(OLD)
        path = paths.bundle_owner(str(OLD.namespace), bundle.range)
        await engine.store.create(
            path, b'{"nativeUrl":"pulsar://10.0.0.1:6650"}', make_parents=True
        )

    engine.run(own_old)
    assert call("GET", OLD_LOOKUP).json["brokerUrl"] == "pulsar://10.0.0.1:6650"
    assert call("GET", f"{OLD_LOOKUP}/bundle").body == b"0x00000000_0xffffffff"
    assert call("GET", OLD_LOOKUP.replace("/public/", "/nobody/")).status == 404


def test_topics_of_old_names_are_administered_below_admin(call: Call) -> None:
    tree = "/admin/persistent/public/standalone/ns"
    assert call("PUT", f"{tree}/p/partitions", 2).status == 204
    assert call("GET", f"{tree}/p/partitions").json["partitions"] == 2
    names = [f"persistent://public/standalone/ns/p-partition-{i}" for i in range(2)]
    assert call("GET", tree).json == names
    assert call("GET", "/admin/namespaces/public/standalone/ns/destinations").json == names
    assert call("GET", "/admin/namespaces/public/standalone/ns/topics").status in (404, 405)
