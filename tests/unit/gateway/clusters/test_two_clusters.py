"""Two clusters behind one gateway: neither sees what the other has, by any way in."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import RequestFactory
from django.urls import resolve

from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.jobs.models import JobRun
from gateway.jobs.stores import stores_of
from gateway.services.clock import now_ms
from gateway.services.feeds.row_list import RowChanges
from gateway.services.history.history_file import NAME, HistoryFile
from gateway.services.history.slots import SLOT_MS, Recorded, Subject
from tests.support.admin.clusters import cluster_of
from tests.support.admin.gateway_client import HOST, Gateway, let_go_of_connections, memory_link
from tests.support.net.socket_pair import SocketPair
from tests.unit.admin_ui.audit.test_recording import named

ADMIN = "admin/v2/persistent/public/default"
API = "/api/v1/clusters"
TOPIC = "persistent://public/default/only-west"


@pytest.fixture
def two(tmp_path: Path, transactional_db: None) -> Iterator[Gateway]:
    """A gateway of the clusters east, the default, and west, which has the topic ``TOPIC``."""
    with memory_link("east") as east, memory_link("west") as west:
        folders = [tmp_path / "east", tmp_path / "west"]
        for folder in folders:
            folder.mkdir()
        gateway = Gateway(
            cluster_of(east, "east", folders[0]), cluster_of(west, "west", folders[1])
        )
        yield gateway
        gateway.close()
    asyncio.run(sync_to_async(let_go_of_connections)())


@pytest.fixture
def filled(two: Gateway) -> Gateway:
    answer = two("PUT", f"/clusters/west/{ADMIN}/only-west/partitions", 2)
    assert answer.status == 204, answer
    return two


def listed(two: Gateway, cluster: str, enough: Callable[[Any], bool]) -> list[str]:
    """Return the topics that the console lists, once ``enough`` accepts the answer."""
    while True:
        answer = two("GET", f"{API}/{cluster}/topics")
        assert answer.status == 200, answer
        if enough(answer.json):
            return [row["name"] for row in answer.json["rows"]]


def west(two: Gateway) -> Cluster:
    return two.clusters.named("west")


def test_rest_finds_the_cluster_by_its_path_and_without_one_the_default(filled: Gateway) -> None:
    assert filled("GET", f"/clusters/west/{ADMIN}/partitioned").json == [TOPIC]
    assert filled("GET", f"/clusters/east/{ADMIN}/partitioned").json == []
    assert filled("GET", f"/{ADMIN}/partitioned").json == []
    assert filled("GET", "/clusters/west/admin/v2/clusters").json == ["west"]
    assert filled("GET", "/admin/v2/clusters").json == ["east"]
    configuration = filled("GET", "/clusters/west/admin/v2/brokers/internal-configuration").json
    assert configuration["metadataStoreUrl"] == west(filled).settings.metadata_url


def test_a_path_has_the_same_view_arguments_for_every_cluster() -> None:
    from gateway.rest.urls import table

    for route, _, _ in table():
        path = "/" + named(route.django_route, "x")
        views = []
        for match in (resolve(path), resolve(f"/clusters/west{path}")):
            view = match.func.view_class(**match.func.view_initkwargs)
            view.setup(RequestFactory().get(path), **match.kwargs)
            views.append((type(view), view.kwargs))
        assert views[0] == views[1], path


def test_a_lookup_is_answered_for_the_cluster_in_its_path(two: Gateway) -> None:
    path = "lookup/v2/topic/persistent/public/default/t"
    west, east = (two("GET", f"{of}/{path}") for of in ("/clusters/west", ""))
    assert (west.status, east.status) == (503, 503), "neither has a broker"
    assert west.json["reason"] == east.json["reason"]


@pytest.mark.parametrize("path", [f"/clusters/moon/{ADMIN}", f"{API}/moon/topics"])
def test_a_cluster_that_is_not_served_is_404_and_those_that_are_are_named(
    two: Gateway, path: str
) -> None:
    answer = two("GET", path)
    reason = "This gateway serves the clusters east, west, not moon"
    assert (answer.status, answer.json["reason"]) == (404, reason)


def test_the_console_lists_the_topics_of_the_cluster_in_its_path(filled: Gateway) -> None:
    assert listed(filled, "west", lambda page: page["total"] > 0) == [TOPIC]
    assert listed(filled, "east", lambda page: True) == []
    assert filled("GET", f"{API}/east/overview").json["cluster"] == "east"
    assert filled("GET", f"{API}/west/overview").json["totals"]["topics"] == 1
    assert filled("GET", f"{API}/east/overview").json["totals"]["topics"] == 0


def test_the_environment_is_that_of_the_requested_cluster(two: Gateway) -> None:
    environment = two("GET", "/api/v1/environment?cluster=west").json
    assert (environment["cluster"], environment["http_url"]) == (
        "west",
        f"http://{HOST}/clusters/west",
    )
    assert environment["served"] == ["east", "west"]
    for path in ("/api/v1/environment", "/api/v1/environment?cluster=east"):
        environment = two("GET", path).json
        assert (environment["cluster"], environment["http_url"]) == ("east", f"http://{HOST}")
    assert two("GET", "/api/v1/environment?cluster=moon").status == 404


def test_runs_are_those_of_the_cluster(two: Gateway, settings: Any) -> None:
    settings.CLUSTERS = [cluster.settings for cluster in two.clusters]
    run = JobRun.objects.create(
        analysis="a", title="t", parameters={}, created_at=1, cluster="west"
    )
    old = JobRun.objects.create(analysis="a", title="t", parameters={}, created_at=1)

    def runs(query: str) -> list[tuple[str, str]]:
        rows = two("GET", f"/api/v1/runs{query}").json["rows"]
        return [(row["id"], row["cluster"]) for row in rows]

    assert runs("?cluster=west") == [(run.id, "west")]
    assert runs("") == runs("?cluster=east") == [(old.id, "east")]
    for cluster in two.clusters:
        assert stores_of(cluster.name) == cluster.settings.stores
    assert stores_of("") == two.clusters.default.settings.stores
    with pytest.raises(InvalidField, match="moon is not among the worker's: east, west"):
        stores_of("moon")


def test_history_is_that_of_the_cluster_alone(two: Gateway) -> None:
    slot = now_ms() // SLOT_MS - 1
    file = HistoryFile(west(two).settings.folder / NAME)
    file.write(slot, [Recorded(Subject(TOPIC), (1000, 0, 0, 0, 5), False)], {})
    file.close()
    path = f"history?topic={TOPIC}"
    assert [point[-1] for point in two("GET", f"{API}/west/{path}").json["points"]] == [5]
    assert two("GET", f"{API}/east/{path}").json["points"] == []


def test_problems_are_those_of_the_cluster_alone(filled: Gateway) -> None:
    listed(filled, "west", lambda page: page["total"] > 0)
    listed(filled, "east", lambda page: True)
    lag = ["no-consumer", "warning", now_ms() - 5_000, 0, {"left_ms": now_ms() - 5_000}]
    part = f"{TOPIC}-partition-0"
    news = RowChanges(1, [[part, ["s", 500, 0, lag]]], [])

    async def report(_: Any) -> None:
        collector = west(filled).collector
        collector.findings.apply("b:1", news)
        collector.attention.round(collector.topics, now_ms(), whole=True)

    west(filled).link.run(report)

    def behind(cluster: str) -> list[str]:
        answer = filled("GET", f"{API}/{cluster}/topics?attention=any").json
        return [row["name"] for row in answer["rows"]]

    assert (behind("west"), behind("east")) == ([TOPIC], [])


async def test_a_socket_watches_each_cluster_by_its_own_feed(two: Gateway) -> None:
    from engine.base.names import TopicName
    from engine.tenancy.topics import create_partitioned

    socket = await SocketPair(two.application, "/api/v1/live?cluster=west").opened()
    for name in ("east", "west"):
        socket.send(
            json.dumps(
                {"op": "subscribe", "id": name, "channel": "topics", "params": {"cluster": name}}
            )
        )

    async def totals() -> tuple[str, int]:
        while True:
            message = json.loads(await socket.receive())
            if message.get("op") != "beat":
                return message["id"], message["data"]["total"]

    assert {await totals(), await totals()} == {("east", 0), ("west", 0)}
    topic = TopicName.parse(TOPIC)
    await west(two).link.arun(lambda engine: create_partitioned(engine.store, topic, 2))
    assert await totals() == ("west", 1)
    await socket.hang_up()


async def test_a_live_socket_for_a_cluster_that_is_not_served_is_refused(two: Gateway) -> None:
    socket = await SocketPair(two.application, "/api/v1/live?cluster=moon").opened()
    assert socket.response is not None
    assert socket.response.status_code == 404
    await socket.hang_up()
