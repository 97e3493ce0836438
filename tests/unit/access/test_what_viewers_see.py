"""Bodies made for viewers of an instance with several tenants: no name that is not seen, and sums of what is."""

import json
import random
import re
from typing import Any

import pytest

from admin_ui.live import CHANNELS
from engine.admin.api.rows import ROW_COLUMNS
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.viewer import ALL, Viewer
from engine.base.names import NamespaceName, TopicName
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import create_namespace, set_anti_affinity
from engine.tenancy.tenants import create_tenant
from gateway.clusters.cluster import Cluster
from gateway.http import view
from gateway.http.auth import access
from gateway.http.bodies import JsonText
from gateway.services.clock import now_ms
from gateway.services.collection.snapshot import Snapshot
from gateway.services.engine_link import Engine
from gateway.services.feeds.row_list import RowChanges
from tests.support.admin.gateway_client import Answer, Gateway

TENANTS = tuple(f"tq{tenant}" for tenant in range(3))
SPACES = tuple(f"tq{tenant}/nq{tenant}{space}" for tenant in range(3) for space in range(2))
STORED = {space: f"persistent://{space}/pq{space[-2:]}" for space in SPACES}
"""A partitioned topic of each namespace, which the metadata store lists and no broker has loaded."""
LOADED = {space: [f"persistent://{space}/cq{space[-2:]}{n}" for n in range(7)] for space in SPACES}
"""Topics that a broker has loaded."""
NAME = re.compile(r"\b[tnpcs]q\d+")
CONSOLE = "/api/v1/clusters/standalone"
SUMMED = [column for column in ROW_COLUMNS if column != "oldest_at"]
PATHS = (
    *(f"{CONSOLE}/{path}" for path in ("overview", "topics", "scopes", "tenants", "bundles")),
    *(f"{CONSOLE}/topics?{query}" for query in ("attention=any", "q=q1&sort=name", "tenant=tq1")),
    *(f"{CONSOLE}/topics?namespace={space}" for space in SPACES[:2]),
    *(f"{CONSOLE}/scopes?q=q1", f"{CONSOLE}/tenants?q=2", f"{CONSOLE}/bundles?q=nq0&limit=5"),
    *(f"{CONSOLE}/topics/export?format={name}" for name in ("csv", "json")),
    *(f"{CONSOLE}/{path}" for path in ("history", "brokers", "bookies", "settings")),
    *("/api/v1/health", "/api/v1/environment", "/api/v1/audit"),
    *("/admin/v2/tenants", "/admin/v2/namespaces/standalone/antiAffinity/apart?tenant=tq0"),
    *(f"{CONSOLE}/tenants/{tenant}/namespaces" for tenant in TENANTS),
    *(f"/admin/v2/namespaces/{tenant}" for tenant in TENANTS),
    *(f"/admin/v2/namespaces/{space}/topics" for space in SPACES),
    *(f"/admin/v2/persistent/{space}" for space in SPACES),
    *(f"/admin/v2/persistent/{space}/partitioned" for space in SPACES),
)
OF_ALL = ("history", "brokers", "bookies", "settings", "audit")
"""Ends of the paths that a viewer of some tenants is refused."""


async def filled(engine: Engine) -> None:
    for tenant in TENANTS:
        given = {"adminRoles": [], "allowedClusters": ["standalone"]}
        await create_tenant(engine.store, tenant, given)
    for space in SPACES:
        name = NamespaceName.parse(space)
        await create_namespace(engine.store, name, None, cluster="standalone")
        await set_anti_affinity(engine.store, name, "apart")
        await metadata.create_partitioned(engine.store, TopicName.parse(STORED[space]), 2)


def report(cluster: Cluster, rng: random.Random) -> None:
    """Report numbers and lagging subscriptions of the loaded topics, as a broker does."""
    now, rows, lags = now_ms(), [], []
    for names in LOADED.values():
        for name in names:
            rows.append([name, *(rng.randrange(1, 9_000) for _ in ROW_COLUMNS)])
            lag = ["no-consumer", rng.choice(("warning", "error")), now - 60_000, 0, {}]
            backlog = rng.choice((10, 10_000))
            subscription = [name.rpartition("/")[2].replace("c", "s"), backlog, 0, lag]
            lags.append([name, *([subscription] if rng.random() < 0.6 else [])])
    cluster.collector.topics.apply("b:1", RowChanges(now, rows, []))
    cluster.collector.findings.apply("b:1", RowChanges(now, lags, []))


@pytest.fixture
def served(cluster: Cluster) -> Cluster:
    cluster.link.run(filled)
    report(cluster, random.Random(1))
    cluster.link.run(cluster.collector._round)
    return cluster


def seen_names(viewer: Viewer) -> set[str]:
    """Return every name that a body for this viewer may have."""
    spaces = [space for space in SPACES if viewer.sees(space)]
    names = {part for space in spaces for part in space.split("/")}
    names |= {tenant for tenant in TENANTS if viewer.sees_tenant(tenant)}
    topics = [STORED[space] for space in spaces] + [n for space in spaces for n in LOADED[space]]
    names |= {topic.rpartition("/")[2] for topic in topics}
    return names | {name.replace("c", "s") for name in names}


def ask(gateway: Gateway, viewer: Viewer, path: str, patch: pytest.MonkeyPatch) -> Answer:
    async def viewer_of(identity: Identity, cluster: Cluster) -> Viewer:
        return viewer

    with patch.context() as once:
        once.setattr(view, "viewer_of", viewer_of)
        return gateway("GET", path)


def pushed(cluster: Cluster, viewer: Viewer, name: str) -> str:
    """Return the body of a channel as text."""

    async def made() -> Any:
        return await CHANNELS[name].body(viewer, cluster, {"cluster": "standalone"})

    body = cluster.link.run(lambda _: made())
    return body.text if isinstance(body, JsonText) else json.dumps(body)


def viewers(count: int) -> list[Viewer]:
    rng = random.Random(7)
    made = [Viewer(), Viewer(frozenset({SPACES[0]})), Viewer(tenants=frozenset({TENANTS[1]}))]
    while len(made) < count:
        spaces = frozenset(rng.sample(SPACES, rng.randrange(4)))
        made.append(Viewer(spaces, frozenset(rng.sample(TENANTS, rng.randrange(2)))))
    return made


def check_sums(bodies: dict[str, Any], viewer: Viewer) -> None:
    """Compare the sums with those over the rows of the viewer's own list."""
    rows, overview = bodies["topics"]["rows"], bodies["overview"]
    assert overview["totals"]["topics"] == len(rows) == bodies["topics"]["total"]
    for column in SUMMED:
        total = sum(row[column] or 0 for row in rows)
        assert overview["totals"][column] == pytest.approx(total), (viewer, column)
    for tenant in bodies["tenants"]["rows"]:
        of_it = [row for row in rows if row["tenant"] == tenant["name"]]
        assert tenant["numbers"]["topics"] == len(of_it)
        assert tenant["numbers"]["backlog"] == sum(row["backlog"] or 0 for row in of_it)
        if tenant["name"] in TENANTS:
            of_tenant = [space for space in SPACES if space.startswith(f"{tenant['name']}/")]
            assert tenant["namespaces"] == sum(map(viewer.sees, of_tenant))
    attention = overview["attention"]
    if not viewer.everything:
        problems = sum(row["attention"] is not None for row in rows)
        assert sum(item["count"] for item in attention["items"]) + attention["more"] == problems
        assert all(item["topic"] for item in attention["items"]), "parts are of all tenants"


def test_no_body_for_a_viewer_names_what_it_does_not_see(
    served: Cluster, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for viewer in viewers(6):
        allowed, named = seen_names(viewer), set[str]()
        bodies: dict[str, Any] = {}
        for path in PATHS:
            answer = ask(gateway, viewer, path, monkeypatch)
            refused = path.rpartition("/")[2] in OF_ALL
            assert answer.status == (403 if refused else 200), (path, answer.body)
            text = answer.body.decode()
            # A list of a tenant or namespace repeats the name that the caller gave.
            given = set(NAME.findall(path)) if path.startswith(f"{CONSOLE}/tenants/") else set()
            in_body = set(NAME.findall(text)) - given
            assert in_body <= allowed, (viewer, path, in_body - allowed)
            named |= in_body
            if not refused and "export" not in path:
                bodies[path.removeprefix(f"{CONSOLE}/")] = json.loads(text)
        for name in ("overview", "topics"):
            in_body = set(NAME.findall(pushed(served, viewer, name)))
            assert in_body <= allowed, (viewer, name, in_body - allowed)
        check_sums(bodies, viewer)
        topics = {name for name in allowed if name[0] in "tnpc"}
        assert named >= topics, "everything that is seen is shown somewhere"


def test_a_viewer_of_everything_is_shown_everything(
    served: Cluster, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = {
        name: ask(gateway, ALL, f"{CONSOLE}/{name}", monkeypatch).json
        for name in ("overview", "topics", "tenants")
    }
    check_sums(bodies, ALL)
    expected = {*STORED.values(), *(name for names in LOADED.values() for name in names)}
    assert {row["name"] for row in bodies["topics"]["rows"]} == expected
    assert {row["name"] for row in bodies["tenants"]["rows"]} >= set(TENANTS)
    assert sum(row["attention"] is not None for row in bodies["topics"]["rows"]) > 20
    titles = [item["title"] for item in bodies["overview"]["attention"]["items"]]
    assert "No broker is registered" in titles, "parts are shown to who sees everything"


def test_brokers_and_bookies_are_listed_to_who_sees_everything(
    served: Cluster, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"id": "b:1", "state": "up", "topics": 42}]
    monkeypatch.setattr(Snapshot, "brokers", lines)
    monkeypatch.setattr(Snapshot, "bookies", lines)
    for viewer, shown in ((ALL, lines), (Viewer(tenants=frozenset(TENANTS)), [])):
        body = ask(gateway, viewer, f"{CONSOLE}/overview", monkeypatch).json
        assert body["brokers"] == body["bookies"] == shown


async def test_requests_and_sockets_without_authentication_see_everything(
    cluster: Cluster,
) -> None:
    assert await access.viewer_of(UNAUTHENTICATED, cluster) is ALL
