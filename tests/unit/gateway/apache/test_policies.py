"""Policies of namespaces with the defaults of Apache's brokers."""

from typing import Any

import pytest

from engine.admin.api.arguments import OnBundle
from engine.admin.api.policies import NAMESPACE_POLICIES
from engine.base.names import NamespaceName
from gateway.apache.policies import policy_settings
from gateway.services.engine_link import Engine, EngineLink
from tests.support.net.recorded_apache import RecordedApache


def test_defaults_are_the_settings_of_the_brokers_by_their_names() -> None:
    settings = policy_settings(
        {
            "ttlDurationDefaultInSeconds": "90",
            "allowAutoTopicCreation": "false",
            "subscriptionTypesEnabled": "[Exclusive, Shared]",
            "maxProducersPerTopic": "none",
        }
    )
    assert settings.ttl_duration_default_in_seconds == 90
    assert settings.allow_auto_topic_creation is False
    assert settings.max_producers_per_topic == 0


@pytest.fixture
def with_values(apache: RecordedApache) -> None:
    """Give Apache's broker a default, and a namespace a value of its own."""
    runtime = apache.answers["/admin/v2/brokers/configuration/runtime"]
    runtime["ttlDurationDefaultInSeconds"] = "90"
    apache.answers["/admin/v2/namespaces/acme/ns3"]["message_ttl_in_seconds"] = 5


def test_a_namespace_has_its_own_values_over_the_defaults(
    with_values: None, link: EngineLink
) -> None:
    async def read(engine: Engine, name: str) -> Any:
        answer = await engine.call(NAMESPACE_POLICIES, OnBundle(NamespaceName.parse(name)))
        return answer["messageTTL"]

    by_default = link.run(lambda engine: read(engine, "acme/ns0"))
    assert (by_default["value"], by_default["level"]) == (90, "broker")
    own = link.run(lambda engine: read(engine, "acme/ns3"))
    assert (own["value"], own["level"], own["default"]) == (5, "namespace", 90)
