"""Changes of a topic as a whole through the console's API: previewed, confirmed, refused when something differs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from admin_ui.topics import services
from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.errors import Conflict
from engine.base.names import NamespaceName
from gateway.services.admin import existence, partitioned_topics, topics
from gateway.services.engine_link import Engine
from tests.support.admin.bench import AdminBench
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

pytestmark = pytest.mark.virtual_time

API = "/api/v1/clusters/standalone/topics"
NAMESPACE = NamespaceName.of("public", "default")
PLAIN, MANY = NAMESPACE.topic("plain"), NAMESPACE.topic("many")
PATH = f"{API}/persistent/public/default"
Call = Callable[..., Answer]


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


async def filled(engine: Engine) -> None:
    await partitioned_topics.create(engine, MANY, 2, {})
    await topics.create(engine, PLAIN, {"team": "a"})
    for name in (PLAIN, MANY.partition_at(0), MANY.partition_at(1)):
        await subscribe(engine, name, "s")


async def subscribe(engine: Engine, name: Any, title: str) -> None:
    args = CreateSubscription(name, title, EARLIEST_MESSAGE)
    await engine.call(CREATE_SUBSCRIPTION, args)


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def publish(link: BenchLink, name: Any, count: int) -> None:
    link.run(lambda engine: link.bench.publish(name, count))


def preview(call: Call, topic: str, change: str, **more: Any) -> Any:
    answer = call("POST", f"{PATH}/{topic}/{change}", {"preview": True, **more})
    assert answer.status == 200, answer.json
    return answer.json


def test_a_topic_is_made_and_refused(call: Call) -> None:
    new = {
        **{"domain": "persistent", "tenant": "public", "namespace": "default"},
        **{"topic": "new topic", "partitions": 3, "properties": {"a": "b"}},
    }
    made = call("POST", API, new)
    assert (made.status, made.json["name"]) == (201, "persistent://public/default/new topic")
    assert call("GET", f"{PATH}/new%20topic/properties").json == {"properties": {"a": "b"}}
    assert call("POST", API, new).status == 409
    assert call("POST", API, {**new, "namespace": "none"}).status == 404
    assert call("POST", API, {**new, "topic": "a", "partitions": 10_001}).json["field"] == (
        "partitions"
    )


def test_a_deletion_reports_the_lost_entries_and_loses_no_more(call: Call, link: BenchLink) -> None:
    for part, count in ((0, 4), (1, 6)):
        publish(link, MANY.partition_at(part), count)
    before = AuditEntry.objects.count()
    previewed = preview(call, "many", "delete")
    assert AuditEntry.objects.count() == before, "a preview changes nothing"
    assert (previewed["partitions"], previewed["entries"], previewed["remakes"]) == (2, 10, True)
    (lost,) = previewed["subscriptions"]
    assert (lost["name"], lost["messages"], lost["exact"]) == ("s", 10, True)
    publish(link, MANY.partition_at(1), 1)
    refused = call("POST", f"{PATH}/many/delete", {"token": previewed["token"]})
    assert refused.status == 409
    assert "published since the preview" in refused.json["reason"]
    again = preview(call, "many", "delete")
    assert again["entries"] == 11, "no partition was deleted"
    done = call("POST", f"{PATH}/many/delete", {"token": again["token"]})
    assert (done.status, done.json["change"]) == (200, "delete")
    assert call("POST", f"{PATH}/many/delete", {"preview": True}).status == 404
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target.endswith("/many/delete"), entry.status) == (True, 200)


def test_a_token_is_of_one_topic_and_one_change(call: Call) -> None:
    token = preview(call, "plain", "delete")["token"]
    for path in (f"{PATH}/many/delete", f"{PATH}/plain/terminate"):
        refused = call("POST", path, {"token": token})
        assert (refused.status, refused.json["field"]) == (400, "token")
    assert call("POST", f"{PATH}/plain/delete", {}).json["field"] == "token"


def test_a_topic_is_unloaded_and_terminated(call: Call, link: BenchLink) -> None:
    publish(link, PLAIN, 3)
    previewed = preview(call, "plain", "unload")
    assert call("POST", f"{PATH}/plain/unload", {"token": previewed["token"]}).status == 200
    previewed = preview(call, "plain", "terminate")
    assert previewed["terminated"] is False
    done = call("POST", f"{PATH}/plain/terminate", {"token": previewed["token"]}).json
    assert [position.rpartition(":")[2] for position in done["last"]] == ["2"]
    again = preview(call, "plain", "terminate")
    assert (again["terminated"], again["token"]) == (True, None)
    refused = call("POST", f"{API}/non-persistent/public/default/x/terminate", {"preview": True})
    assert refused.status == 405


def test_a_growth_is_refused_when_the_number_of_partitions_changed(
    call: Call, link: BenchLink
) -> None:
    refused = call("POST", f"{PATH}/many/partitions", {"preview": True, "partitions": 2})
    assert (refused.status, "more than the 2" in refused.json["reason"]) == (422, True)
    refused = call("POST", f"{PATH}/plain/partitions", {"preview": True, "partitions": 2})
    assert (refused.status, "not partitioned" in refused.json["reason"]) == (409, True)
    first = preview(call, "many", "partitions", partitions=3)
    second = preview(call, "many", "partitions", partitions=4)
    assert (first["partitions"], first["partitions_after"]) == (2, 3)
    assert call("POST", f"{PATH}/many/partitions", {"token": first["token"]}).status == 200
    refused = call("POST", f"{PATH}/many/partitions", {"token": second["token"]})
    assert (refused.status, "number of partitions" in refused.json["reason"]) == (409, True)
    assert link.run(lambda engine: existence.partitions_of(engine, MANY)) == 3


@pytest.mark.parametrize("topic", ["plain", "many"])
def test_properties_are_changed_only_while_they_are_as_shown(call: Call, topic: str) -> None:
    path = f"{PATH}/{topic}/properties"
    shown = call("GET", path).json["properties"]
    value = {"owner": "ops", "tier": ""}
    done = call("PUT", path, {"value": value, "expected": shown})
    assert (done.status, done.json["properties"]) == (200, value)
    refused = call("PUT", path, {"value": {}, "expected": shown | {"other": "x"}})
    assert (refused.status, "changed meanwhile" in refused.json["reason"]) == (409, True)
    assert call("PUT", path, {"value": {}, "expected": value}).json == {"properties": {}}


async def test_a_producer_attached_since_the_preview_prevents_a_termination() -> None:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, PLAIN, {})
    previewed = await services.preview(bench.engine, PLAIN, "terminate", "alice")
    (await bench.loaded(PLAIN)).publishers.attached["new"] = _Producer()  # type: ignore[assignment]
    with pytest.raises(Conflict, match="producer new"):
        await services.apply(bench.engine, PLAIN, "terminate", "alice", previewed["token"])
    del (await bench.loaded(PLAIN)).publishers.attached["new"]
    await bench.close()


class _Producer:
    """A producer that attached since the preview."""

    name = "new"
    outlet = type("Outlet", (), {"address": "127.0.0.1:1"})
