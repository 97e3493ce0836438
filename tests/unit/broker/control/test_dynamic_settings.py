"""Settings that change while brokers run: checked, stored, and applied by all brokers and loaded topics."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.admin.api.arguments import NoArguments
from engine.admin.api.dynamic_settings import (
    CHANGE_SETTING,
    DYNAMIC_SETTINGS,
    LIVE_SETTINGS,
    ChangeSetting,
    LiveSettings,
)
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.clock import SystemClock
from engine.base.errors import Conflict, Failed, PreconditionFailed
from engine.base.names import TopicName
from engine.base.settings import HIDDEN, settings_of
from engine.broker.control.dynamic_settings import DynamicSettings
from engine.broker.service import BrokerService
from engine.broker.settings import NodeSettings
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.settings import PROGRAM
from manage import programs
from tests.support.admin.broker_instance import BrokerInstance

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("dynamic")


@pytest.fixture
async def instance() -> AsyncIterator[BrokerInstance]:
    made = BrokerInstance()
    await made.cluster.start("b0")
    yield made
    await made.close()


async def change(instance: BrokerInstance, name: str, value: str | None) -> None:
    [broker, *_] = await instance.admin.brokers()
    await instance.admin.call_on(broker, CHANGE_SETTING, ChangeSetting(name, value))


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def runtime(broker: BrokerService, name: str) -> str:
    return broker.running.dynamic.runtime()[name]


async def test_a_change_applies_to_every_broker_and_loaded_topic(
    instance: BrokerInstance,
) -> None:
    both = [await instance.broker() for _ in range(2)]
    await instance.admin.call(CREATE_TOPIC, CreateTopic(TOPIC))
    topic = instance.owner(TOPIC).running.registry.loaded(TOPIC)
    assert topic is not None
    stages = len(topic.stages)
    await change(instance, "maxPublishRatePerTopicInMessages", "7")
    await reached(lambda: topic.policies.rates.publish.messages == 7)
    assert len(topic.stages) == stages + 1
    await change(instance, "brokerPublisherThrottlingMaxMessageRate", "9")
    await change(instance, "managedLedgerCacheSizeMB", "3")
    await change(instance, "brokerShutdownTimeoutMs", "1234")
    for broker in both:
        await reached(
            lambda target=broker: runtime(target, "brokerShutdownTimeoutMs") == "1234"  # type: ignore[misc]
        )
        assert broker.running.dynamic.of(NodeSettings).broker_shutdown_timeout_ms == 1234
        assert broker.running.context.settings.broker_publisher_throttling_max_message_rate == 9
        assert broker.running.registry.cache_bytes_max == 3 << 20
    assert len(topic.stages) == stages + 2
    for name in list(await values(instance)):
        await change(instance, name, None)
    await reached(lambda: len(topic.stages) == stages)
    assert await values(instance) == {}


async def values(instance: BrokerInstance) -> dict[str, str]:
    [broker, *_] = await instance.admin.brokers()
    answer = await instance.admin.call_on(broker, DYNAMIC_SETTINGS, NoArguments())
    assert "maxPublishRatePerTopicInMessages" in answer["names"]
    return dict(answer["values"])


async def test_a_change_outlives_the_broker(instance: BrokerInstance) -> None:
    stopped = await instance.broker()
    await change(instance, "maxTopicsPerNamespace", "5")
    assert (await instance.cluster.store.get(paths.CONFIGURATION))[0] == (
        b'{"maxTopicsPerNamespace":"5"}'
    )
    await instance.stop(stopped)
    again = await instance.broker()
    assert runtime(again, "maxTopicsPerNamespace") == "5"
    assert again.running.catalog.defaults()["maxTopicsPerNamespace"].value == 5


async def test_an_unchangeable_setting_or_an_invalid_value_is_refused(
    instance: BrokerInstance,
) -> None:
    await instance.broker()
    for name in ("brokerServicePort", "nosuch", "internalToken"):
        with pytest.raises(PreconditionFailed, match="Can't update non-dynamic configuration"):
            await change(instance, name, "1")
        with pytest.raises(PreconditionFailed, match="Can't delete non-dynamic configuration"):
            await change(instance, name, None)
    for name, value, word in (
        ("maxTopicsPerNamespace", "abc", "whole number from 0"),
        ("maxTopicsPerNamespace", "-1", "whole number from 0"),
        ("allowAutoTopicCreation", "maybe", "true or false"),
        ("subscriptionTypesEnabled", "Exclusive,None", "must be of Exclusive"),
        ("allowAutoTopicCreationType", "other", "non-partitioned, partitioned"),
    ):
        with pytest.raises(
            PreconditionFailed, match=f"Invalid dynamic-config value: {name}.*{word}"
        ):
            await change(instance, name, value)
    assert await values(instance) == {}
    await change(instance, "maxTopicsPerNamespace", None)


async def test_stored_settings_are_applied_where_they_are_valid(
    instance: BrokerInstance, caplog: pytest.LogCaptureFixture
) -> None:
    store = instance.cluster.store
    await store.create(
        paths.CONFIGURATION,
        b'{"maxTopicsPerNamespace":"abc","defaultNumPartitions":"3","loadBalancerDebugModeEnabled":"no"}',
        make_parents=True,
    )
    with caplog.at_level(logging.WARNING):
        broker = await instance.broker()
    assert runtime(broker, "defaultNumPartitions") == "3"
    assert runtime(broker, "maxTopicsPerNamespace") == "0"
    assert "dynamic setting not used name=maxTopicsPerNamespace" in caplog.text
    await change(instance, "maxTopicsPerNamespace", "4")
    assert (await values(instance))["loadBalancerDebugModeEnabled"] == "no"
    await store.put(paths.CONFIGURATION, b"[]")
    with pytest.raises(Failed, match="a JSON object is needed"):
        await values(instance)
    assert runtime(broker, "maxTopicsPerNamespace") == "4"


async def test_concurrent_changes_are_all_kept(instance: BrokerInstance) -> None:
    await instance.broker()
    names = instance.brokers[0][0].running.dynamic.names
    counted = [name for name in names if "Rate" in name and name.endswith(("Msg", "Byte"))]
    await asyncio.gather(*(change(instance, name, "11") for name in counted))
    assert await values(instance) == dict.fromkeys(counted, "11")


async def live(
    instance: BrokerInstance, name: str = "", value: str | None = None
) -> dict[str, dict[str, Any]]:
    [broker, *_] = await instance.admin.brokers()
    args = LiveSettings(name, value)
    lines = await instance.admin.call_on(broker, LIVE_SETTINGS, args)
    return {line["name"]: line for line in lines}


async def test_a_broker_reports_values_in_force_and_the_effect_of_a_proposed_one(
    instance: BrokerInstance,
) -> None:
    broker = await instance.broker()
    assert list(await live(instance)) == broker.running.dynamic.names
    name = "maxTopicsPerNamespace"
    await change(instance, name, "5")
    line = (await live(instance, name))[name]
    assert (line["started"], line["in_force"], line["last_read"], line["would_be"]) == (
        "0",
        "5",
        "5",
        "0",
    )
    assert (await live(instance, name, "007"))[name]["would_be"] == "7"
    wrong = (await live(instance, name, "abc"))[name]
    assert (wrong["would_be"], wrong["refused"]) == ("0", "")
    assert wrong["refusal"] == "must be a whole number from 0 to 2147483647, not 'abc'"
    assert runtime(broker, name) == "5", "a request for the effect changes nothing"
    assert await live(instance, "brokerServicePort", "1") == {}


async def test_a_checked_change_is_refused_when_the_value_is_not_the_expected_one(
    instance: BrokerInstance,
) -> None:
    await instance.broker()
    [broker, *_] = await instance.admin.brokers()
    name = "maxTopicsPerNamespace"

    async def checked(value: str | None, expected: str | None) -> None:
        args = ChangeSetting(name, value, checked=True, expected=expected)
        await instance.admin.call_on(broker, CHANGE_SETTING, args)

    await checked("5", None)
    for seen in (None, "4"):
        with pytest.raises(Conflict, match="changed meanwhile"):
            await checked("6", seen)
    assert await values(instance) == {name: "5"}
    await checked(None, "5")
    assert await values(instance) == {}


SECRET = "never-to-be-shown"


def secret_groups() -> list[Any]:
    """Return all groups of the broker's settings, with a value in each secret one, whatever else that requires."""
    groups = []
    for _, group, private in PROGRAM.groups():
        declared = [s for s in settings_of(group, "broker", private) if s.is_secret]
        made = group()
        for setting in declared:
            object.__setattr__(made, setting.item.name, SECRET)
        groups.append(made)
    return groups


async def test_a_secret_is_shown_by_no_report_of_settings() -> None:
    groups = secret_groups()
    dynamic = DynamicSettings(
        MemoryServer(SystemClock()).session(10.0), tuple(groups), lambda dynamic: None
    )
    runtime = dynamic.runtime()
    assert runtime["tokenSecretKey"] == runtime["basicAuthConf"] == HIDDEN
    assert runtime["brokerClientAuthenticationParameters"] == HIDDEN
    shown = [runtime, dynamic.live(), *(dynamic.live_if(name, None) for name in runtime)]
    assert SECRET not in str([line for line in shown if line])
    assert SECRET not in repr(groups)


def test_settings_that_hold_a_secret_are_marked() -> None:
    unmarked = [
        setting.name
        for program in programs()
        for setting in program.settings()
        if not setting.is_secret
        and setting.kind is not bool
        and re.search(
            "secret|password|private_key|auth_conf|parameters|internal_token", setting.name
        )
    ]
    assert unmarked == []
