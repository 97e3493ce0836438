"""Settings of brokers by the console's API: values in force with their reasons, and changes exactly as previewed. Only
reports of the brokers themselves are shown."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.broker_settings import selectors
from admin_ui.broker_settings.selectors import BrokerAnswers
from admin_ui.models import AuditEntry
from engine.admin.api.dynamic_settings import LiveSettings
from engine.admin.client import BrokerAddress
from engine.metadata import paths
from gateway.services.admin import brokers
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

API = "/api/v1/clusters/standalone/settings"
NAME = "maxTopicsPerNamespace"
Call = Callable[..., Answer]


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(brokers.ids) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def row(call: Call, name: str = NAME) -> Any:
    answer = call("GET", API)
    assert answer.status == 200, answer.json
    return next(row for row in answer.json["rows"] if row["name"] == name)


def preview(call: Call, value: str | None, name: str = NAME) -> Any:
    answer = call("POST", f"{API}/{name}", {"preview": True, "value": value})
    assert answer.status == 200, answer.json
    return answer.json


def apply(call: Call, token: str, name: str = NAME) -> Answer:
    return call("POST", f"{API}/{name}", {"token": token})


def store_one(link: BenchLink, value: str | None) -> None:
    """Store the value as another tool does."""
    link.run(lambda engine: brokers.change_setting(engine, NAME, value))


def test_every_setting_has_its_meaning_allowed_values_and_value_in_force(
    call: Call, link: BenchLink
) -> None:
    broker = link.bench.broker.record.id
    answer = call("GET", API).json
    assert (answer["brokers"], answer["silent"], answer["others"]) == (1, [], [])
    assert [
        setting["name"] for setting in answer["rows"]
    ] == link.bench.broker.running.dynamic.names
    assert all(setting["meaning"] and setting["allowed"] for setting in answer["rows"])
    assert not any(setting["meaning"].endswith(")") for setting in answer["rows"]), (
        "the name is shown separately"
    )
    here = [{"value": "0", "brokers": [broker]}]
    assert row(call) == {
        "name": NAME,
        "meaning": "topics of one namespace; 0: no limit",
        "allowed": "a whole number from 0 to 2147483647",
        "choices": [],
        "default": "0",
        "stored": None,
        "values": here,
        "started": here,
        "behind": [],
    }
    assert row(call, "allowAutoTopicCreationType")["choices"] == ["non-partitioned", "partitioned"]
    assert row(call, "managedLedgerCacheSizeMB")["values"][0]["value"].isdigit()


def test_a_setting_is_set_and_removed_as_previewed(call: Call, link: BenchLink) -> None:
    broker = link.bench.broker.record.id
    asked = AuditEntry.objects.count()
    previewed = preview(call, "7")
    assert (previewed["would_be"], previewed["brokers"]) == (
        [{"value": "7", "brokers": [broker]}],
        1,
    )
    assert AuditEntry.objects.count() == asked, "a preview changes nothing"
    assert row(call)["stored"] is None
    done = apply(call, previewed["token"]).json
    assert (done["row"]["stored"], done["row"]["behind"], done["silent"]) == ("7", [], [])
    assert done["row"]["values"] == [{"value": "7", "brokers": [broker]}]
    assert link.bench.broker.running.dynamic.runtime()[NAME] == "7"
    entry = AuditEntry.objects.latest("pk")
    assert (entry.status, entry.target) == (200, f"{API}/{NAME}")
    assert '"where": "change_setting", "before": null' in entry.changes
    assert '"value": "7"' in entry.changes
    assert preview(call, "7")["token"] is None, "it is stored already"
    removal = preview(call, None)
    assert removal["would_be"] == [{"value": "0", "brokers": [broker]}]
    done = apply(call, removal["token"]).json
    assert (done["row"]["stored"], done["row"]["values"][0]["value"]) == (None, "0")
    assert '"before": "7"' in AuditEntry.objects.latest("pk").changes


def test_an_invalid_value_is_refused_with_the_setting_and_its_limit(call: Call) -> None:
    for name, value, limit in (
        (NAME, "abc", "must be a whole number from 0 to 2147483647, not 'abc'"),
        (NAME, "-1", "must be a whole number from 0 to 2147483647, not '-1'"),
        ("allowAutoTopicCreation", "maybe", "must be true or false, not 'maybe'"),
        ("subscriptionTypesEnabled", "None", "must be of Exclusive, Shared, Failover, Key_Shared"),
        ("defaultNumPartitions", "", "must be a whole number from 1 to 10000"),
    ):
        refused = call("POST", f"{API}/{name}", {"preview": True, "value": value})
        assert (refused.status, refused.json["field"]) == (400, name)
        assert refused.json["reason"].startswith(f"{name}: {limit}")
    long = call("POST", f"{API}/{NAME}", {"preview": True, "value": "1" * 1001})
    assert (long.status, long.json["field"]) == (400, "value")
    assert call("POST", f"{API}/brokerServicePort", {"preview": True, "value": "1"}).status == 404
    assert call("POST", f"{API}/{NAME}", {"value": "1"}).json["field"] == "token"


def test_a_value_that_was_stored_since_the_preview_is_not_overwritten(
    call: Call, link: BenchLink
) -> None:
    previewed = preview(call, "7")
    store_one(link, "5")
    refused = apply(call, previewed["token"])
    assert (refused.status, "stored since the preview" in refused.json["reason"]) == (409, True)
    assert row(call)["stored"] == "5"
    again = preview(call, None)
    other = call("POST", f"{API}/defaultNumPartitions", {"token": again["token"]})
    assert (other.status, other.json["field"]) == (400, "token")
    assert apply(call, again["token"]).status == 200
    assert apply(call, again["token"]).status == 409


def test_a_broker_that_has_not_received_a_value_is_listed_as_behind(
    call: Call, link: BenchLink
) -> None:
    broker = link.bench.broker.record.id

    async def write_without_watch(engine: Engine) -> None:
        await link.bench.broker.running.dynamic.close()
        stored = b'{"maxTopicsPerNamespace":"9","loadBalancerDebugModeEnabled":"no"}'
        await engine.store.create(paths.CONFIGURATION, stored, make_parents=True)

    link.run(write_without_watch)
    late = row(call)
    assert (late["stored"], late["values"][0]["value"]) == ("9", "0")
    [behind] = late["behind"]
    assert (behind["broker"], "not received" in behind["reason"]) == (broker, True)
    others = call("GET", API).json["others"]
    assert others == [{"name": "loadBalancerDebugModeEnabled", "stored": "no"}]


def test_a_value_that_a_broker_cannot_use_is_reported_with_the_reason(
    call: Call, link: BenchLink
) -> None:
    async def nonsense(engine: Engine) -> None:
        stored = b'{"maxTopicsPerNamespace":"abc"}'
        await engine.store.create(paths.CONFIGURATION, stored, make_parents=True)
        await link.bench.broker.running.dynamic.load()

    link.run(nonsense)
    [behind] = row(call)["behind"]
    assert "must be a whole number from 0" in behind["reason"]
    assert preview(call, None)["token"], "the value may be removed"


def test_without_an_answering_broker_there_are_no_rows_and_no_changes(
    call: Call, link: BenchLink
) -> None:
    token = preview(call, "7")["token"]
    link.silence()
    answer = call("GET", API).json
    assert (answer["brokers"], answer["rows"], len(answer["silent"])) == (0, [], 1)
    assert call("POST", f"{API}/{NAME}", {"preview": True, "value": "7"}).status == 503
    assert apply(call, token).status == 503


async def test_a_broker_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Frozen:
        async def brokers(self) -> list[BrokerAddress]:
            return [BrokerAddress("a", "", "")]

        async def call_on(self, *_: Any, **__: Any) -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr(selectors, "ASKING_S", 0.01)
    answers = await selectors.ask_brokers(Engine(None, Frozen()), LiveSettings())  # type: ignore[arg-type]
    assert (answers.lines, answers.silent) == ({}, {"a": "It does not answer"})


def test_values_are_listed_by_broker() -> None:
    def line(value: str) -> dict[str, dict[str, Any]]:
        description = {"name": NAME, "meaning": "", "allowed": "", "choices": [], "default": "0"}
        facts = {"started": value, "in_force": value, "last_read": None, "refused": ""}
        return {NAME: {**description, **facts, "would_be": value, "refusal": ""}}

    a, b, c = (BrokerAddress(name, "", "") for name in "abc")
    answers = BrokerAnswers({c: line("0"), b: line("5"), a: line("0")}, {"d": "No answer"})
    row = selectors.row(NAME, {}, answers)
    assert row["values"] == [
        {"value": "0", "brokers": ["a", "c"]},
        {"value": "5", "brokers": ["b"]},
    ]
    assert selectors.behind(NAME, {}, answers) == []
    assert [row["broker"] for row in selectors.behind(NAME, {NAME: "1"}, answers)] == [
        "a",
        "b",
        "c",
    ]
    older = BrokerAnswers({a: line("0"), b: {}}, {})
    assert "does not know" in selectors.row(NAME, {}, older)["behind"][0]["reason"]
