"""A list of replication clusters is changed as previewed: what starts to be sent, what stays unsent, and a cluster that
leaves."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.records import encode_json
from gateway.services.admin import topics
from gateway.services.engine_link import Engine
from gateway.services.feeds.row_list import RowChanges
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

DEFAULT = NamespaceName.of("public", "default")
API = "/api/v1/clusters/standalone"
SPACE = f"{API}/tenants/public/namespaces/default/policies/replication"
TOPIC = f"{API}/topics/persistent/public/default/a/policies/replication"
PATIENCE_S = 30
Call = Callable[..., Answer]


async def filled(engine: Engine) -> None:
    await engine.store.create(paths.cluster("eu"), encode_json({}))
    for local in ("a", "b"):
        await topics.create(engine, DEFAULT.topic(local), {})


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    made = Gateway(link.cluster)
    tenant = {"adminRoles": [], "allowedClusters": ["standalone", "eu"]}
    assert made("POST", "/admin/v2/tenants/public", tenant).status == 204
    until = time.monotonic() + PATIENCE_S
    while not (link.cluster.collector.has_all_links and link.cluster.collector.topics.complete):
        assert made("GET", f"{API}/overview").status in (200, 503)
        assert time.monotonic() < until
        time.sleep(0.05)
    return made


def preview(call: Call, path: str, *clusters: str) -> Any:
    answer = call("POST", path, {"preview": True, "value": list(clusters)})
    assert answer.status == 200, answer.json
    return answer.json


def report(link: BenchLink, backlog: int, messages: int, cause: str | None) -> None:
    """Have the cluster's broker report the link of a topic to ``eu``."""
    row = [str(DEFAULT.topic("a")), ["eu", [backlog, 1, messages, 1, cause, "", 0], None]]

    async def apply(engine: Engine) -> None:
        [broker] = await engine.admin.brokers()
        link.cluster.collector.links.apply(broker.id, RowChanges(1, [row], []))

    link.run(apply)


def test_a_cluster_that_is_added_receives_what_is_published_from_then_on(call: Call) -> None:
    shown = preview(call, SPACE, "standalone", "eu")
    flows = shown["flows"]
    assert (flows["topics"], flows["ends"], flows["leaves"]) == (2, [], False)
    [start] = flows["starts"]
    assert start.keys() == {"cluster", "msg_rate_in", "bytes_rate_in", "storage_bytes"}
    assert start["cluster"] == "eu"
    saved = call("POST", SPACE, {"token": shown["token"]})
    assert saved.status == 200, saved.json
    assert saved.json["row"]["own"] == ["standalone", "eu"]
    assert call("POST", SPACE, {"token": shown["token"]}).status == 409


def test_a_cluster_that_is_removed_keeps_what_it_has_and_the_unsent_messages_are_counted(
    call: Call, link: BenchLink
) -> None:
    added = preview(call, SPACE, "standalone", "eu")
    assert call("POST", SPACE, {"token": added["token"]}).status == 200
    report(link, 7, 1_000, None)
    shown = preview(call, SPACE, "standalone")
    assert shown["flows"]["ends"] == [{"cluster": "eu", "unsent": 7, "sending": True, "unknown": 1}]
    report(link, 9, 0, "unreachable")
    refused = call("POST", SPACE, {"token": shown["token"]})
    assert refused.status == 409
    assert "more messages would not be sent to eu" in refused.json["reason"]
    again = preview(call, SPACE, "standalone")
    assert again["flows"]["ends"][0]["sending"] is False
    saved = call("POST", SPACE, {"token": again["token"]})
    assert saved.json["flows"]["ends"][0]["unsent"] == 9
    assert saved.json["row"]["own"] == ["standalone"]


def test_a_list_without_this_cluster_is_previewed_as_leaving(call: Call) -> None:
    flows = preview(call, SPACE, "eu")["flows"]
    assert flows["leaves"] is True
    refused = call("POST", TOPIC, {"preview": True, "value": ["eu"]})
    assert refused.status == 412, refused.json


def test_a_topic_has_a_list_of_its_own_and_an_unknown_cluster_is_refused(call: Call) -> None:
    flows = preview(call, TOPIC, "standalone", "eu")["flows"]
    assert (flows["topics"], flows["starts"][0]["cluster"]) == (1, "eu")
    refused = call("POST", SPACE, {"preview": True, "value": ["standalone", "mars"]})
    assert refused.status == 403
    assert "mars" in refused.json["reason"]
