"""A lookup is answered from metadata; brokers are asked only to take a bundle that nobody owns."""

from collections.abc import Callable
from typing import Any

from engine.base.names import TopicName
from engine.metadata import paths
from engine.tenancy.namespaces import get_bundles
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.gateway_client import HOST

Call = Callable[..., Any]
NAME = TopicName.parse("persistent://public/default/t")
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


async def own(engine: Engine) -> None:
    bundle = (await get_bundles(engine.store, NAME.namespace)).of_topic(NAME)
    path = paths.bundle_owner(str(NAME.namespace), bundle.range)
    value = (
        b'{"nativeUrl":"pulsar://10.0.0.1:6650","httpUrl":"http://10.0.0.1:8081","disabled":false}'
    )
    await engine.store.create(path, value, make_parents=True)


def test_an_owner_is_told_without_asking_a_broker(call: Call, engine: EngineLink) -> None:
    engine.run(own)
    assert call("GET", LOOKUP).json == {
        "brokerUrl": "pulsar://10.0.0.1:6650",
        "httpUrl": f"http://{HOST}",
        "nativeUrl": "pulsar://10.0.0.1:6650",
        "brokerUrlSsl": "",
    }


def test_without_an_owner_a_broker_is_asked(call: Call) -> None:
    answer = call("GET", LOOKUP)
    assert (answer.status, answer.json["reason"]) == (503, "No broker is available")


def test_a_namespace_that_does_not_exist_is_404(call: Call) -> None:
    assert call("GET", "/lookup/v2/topic/persistent/public/none/t").status == 404
