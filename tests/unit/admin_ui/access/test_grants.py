"""Grants are changed as they were previewed, with what each role gains and loses by the judge's rules."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from admin_ui.models import AuditEntry
from engine.base.errors import Conflict
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.records import encode_json
from engine.tenancy import grants, topics
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import Engine
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Answer, Gateway, call, cluster, engine, gateway
from tests.unit.admin_ui.access.test_rights_pages import filled

__all__ = ["call", "cluster", "engine", "gateway"]
CONSOLE = "/api/v1/clusters/standalone/grants"
TOPIC = "persistent://t1/n/p"
NAMESPACE = "tenant=t1&namespace=n"
Post = Callable[..., Answer]


@pytest.fixture
def served(call: Gateway, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    async def with_topic(engine: Engine) -> None:
        await filled(engine)
        await topics.create_partitioned(engine.store, TopicName.parse(TOPIC), 2)

    cluster.link.run(with_topic)
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    return call


@pytest.fixture
def post(served: Gateway) -> Post:
    """``post(place, body, role="ann")``."""

    def posted(place: str, body: Any, role: str = "ann") -> Answer:
        return served("POST", f"{CONSOLE}?{place}", body, headers=bearer(role))

    return posted


def rows(served: Gateway, place: str, role: str = "ann") -> list[tuple[str, str, list[str]]]:
    answer = served("GET", f"{CONSOLE}?{place}", headers=bearer(role))
    assert answer.status == 200, answer.body
    return [(row["kind"], row["role"], row["words"]) for row in answer.json["rows"]]


def test_the_grants_of_a_place_are_listed_with_those_that_count_there(served: Gateway) -> None:
    of_tenant = [("tenant", "ann", ["admin"])]
    of_namespace = [
        ("namespace", "app", ["produce", "consume"]),
        ("namespace", "secret-t1", ["produce"]),
        ("subscription", "app", ["use"]),
    ]
    assert rows(served, "tenant=t1") == of_tenant
    assert rows(served, NAMESPACE) == of_tenant + of_namespace
    assert rows(served, f"topic={TOPIC}") == of_tenant + of_namespace
    for place in ("tenant=t2", "tenant=t2&namespace=n", ""):
        assert served("GET", f"{CONSOLE}?{place}", headers=bearer("ann")).status == 403


@pytest.mark.parametrize(
    ("place", "change", "effects"),
    [
        (
            NAMESPACE,
            {"role": "new", "words": ["consume"]},
            [{"role": "new", "gained": ["lookup", "consume"], "lost": []}],
        ),
        (
            NAMESPACE,
            {"role": "app", "words": ["produce"]},
            [{"role": "app", "gained": [], "lost": ["consume"]}],
        ),
        (
            f"topic={TOPIC}",
            {"role": "new", "words": ["produce"]},
            [{"role": "new", "gained": ["lookup", "produce"], "lost": []}],
        ),
        (
            f"topic={TOPIC}",
            {"role": "app", "words": ["produce"]},
            [],
        ),
        (
            "tenant=t1",
            {"role": "eve", "words": ["admin"]},
            [{"role": "eve", "gained": ["tenant admin"], "lost": []}],
        ),
        (
            NAMESPACE,
            {"role": "app", "words": [], "subscription": "s"},
            [],
        ),
        (
            NAMESPACE,
            {"role": "other", "words": ["use"], "subscription": "s2"},
            [{"role": "app", "gained": [], "lost": ["consume"]}],
        ),
    ],
)
def test_a_change_is_made_as_it_was_previewed_and_undone_by_its_receipt(
    place: str, change: dict[str, Any], effects: list[Any], post: Post, served: Gateway
) -> None:
    before = rows(served, place)
    preview = post(place, {"preview": True, **change})
    assert preview.status == 200, preview.body
    shown = [row for row in preview.json["effects"] if row["role"] != "other"]
    assert shown == effects
    no_broker = {"producers": 0, "consumers": 0}
    assert preview.json["connections"] == {**no_broker, "by_proxy": 0}
    assert rows(served, place) == before, "a preview changes nothing"
    assert not AuditEntry.objects.exists()
    subscription = {key: change[key] for key in ("subscription",) if key in change}
    made = post(place, {"token": preview.json["token"], **subscription})
    assert made.status == 200, made.body
    receipt = made.json
    assert (receipt["role"], receipt["after"]) == (change["role"], change["words"])
    assert receipt["closed"] == no_broker
    (entry,) = AuditEntry.objects.all()
    assert (entry.actor, entry.operation, entry.tenant) == ("ann", "changeGrant", "t1")
    assert '"before"' in entry.changes
    assert sorted(rows(served, place)) != sorted(before)
    undo = {"preview": True, "role": receipt["role"], "words": receipt["before"], **subscription}
    token = post(place, undo).json["token"]
    assert post(place, {"token": token, **subscription}).status == 200
    assert sorted(rows(served, place)) == sorted(before)


def test_a_change_is_refused_when_the_grant_is_another_meanwhile(
    post: Post, cluster: Cluster, served: Gateway
) -> None:
    async def grant(engine: Engine) -> None:
        name = TopicName.parse(TOPIC).namespace
        await grants.grant(engine.store, name, "app", ["functions"])

    token = post(NAMESPACE, {"preview": True, "role": "app", "words": []}).json["token"]
    cluster.link.run(grant)
    answer = post(NAMESPACE, {"token": token})
    assert (answer.status, "changed meanwhile" in answer.json["reason"]) == (409, True)
    assert ("namespace", "app", ["functions"]) in rows(served, NAMESPACE)


def test_administrators_that_changed_meanwhile_are_not_overwritten(
    post: Post, served: Gateway
) -> None:
    add = [
        post("tenant=t1", {"preview": True, "role": role, "words": ["admin"]}).json["token"]
        for role in ("eve", "eve")
    ]
    assert post("tenant=t1", {"token": add[0]}).status == 200
    assert post("tenant=t1", {"token": add[1]}).status == 409
    assert [role for _, role, _ in rows(served, "tenant=t1")] == ["ann", "eve"]


def test_a_token_is_for_its_own_place_user_and_subscription(post: Post) -> None:
    body = {"preview": True, "role": "new", "words": ["consume"]}
    token = post(NAMESPACE, body).json["token"]
    assert post(f"topic={TOPIC}", {"token": token}).status == 400
    assert post(NAMESPACE, {"token": token, "subscription": "s"}).status == 400
    assert post(NAMESPACE, {"token": token}, SUPERUSER).status == 409
    assert post(NAMESPACE, {"token": token}, "app").status == 403


def test_the_loss_of_the_own_right_is_announced(post: Post) -> None:
    preview = post("tenant=t1", {"preview": True, "role": "ann", "words": []}).json
    assert preview["own_loss"]
    preview = post("tenant=t1", {"preview": True, "role": "ann", "words": []}, SUPERUSER).json
    assert not preview["own_loss"]


@pytest.mark.parametrize(
    ("place", "change", "field"),
    [
        (NAMESPACE, {"role": "a", "words": ["admin"]}, "words"),
        (NAMESPACE, {"role": "a", "words": ["fly"]}, "words"),
        (NAMESPACE, {"role": " a", "words": []}, "role"),
        (NAMESPACE, {"words": []}, "role"),
        (NAMESPACE, {"role": "a"}, "words"),
        ("tenant=t1", {"role": "a", "words": ["produce"]}, "words"),
        ("tenant=t1", {"role": "a", "words": ["use"], "subscription": "s"}, "subscription"),
        ("", {"role": "a", "words": ["admin"]}, "tenant"),
    ],
)
def test_a_wrong_change_is_refused_by_name(place: str, change: Any, field: str, post: Post) -> None:
    answer = post(place, {"preview": True, **change}, SUPERUSER)
    assert (answer.status, answer.json["field"]) == (400, field), answer.body


def test_nothing_is_granted_on_a_topic_that_does_not_exist(post: Post) -> None:
    body = {"preview": True, "role": "a", "words": ["produce"]}
    assert post("topic=persistent://t1/n/gone", body).status == 404


@pytest.mark.parametrize(
    ("place", "path", "record", "words"),
    [
        ("tenant=t1", paths.tenant("t1"), {"adminRoles": "own"}, ["admin"]),
        (
            NAMESPACE,
            paths.namespace_policies("t1/n"),
            {"auth_policies": {"subscription_auth_roles": {"s": "own"}}},
            ["use"],
        ),
        (
            NAMESPACE,
            paths.namespace_policies("t1/n"),
            {"auth_policies": {"namespace_auth": {"app": "consume"}}},
            ["produce"],
        ),
    ],
)
def test_a_change_of_a_grant_makes_no_rights_of_a_damaged_record(
    place: str, path: str, record: Any, words: list[str], post: Post, cluster: Cluster
) -> None:
    subscription = {"subscription": "s"} if words == ["use"] else {}
    body = {"preview": True, "role": "new", "words": words, **subscription}
    token = post(place, body, SUPERUSER).json["token"]
    damaged = encode_json(record)

    async def damage(engine: Engine) -> None:
        await engine.store.put(path, damaged)

    cluster.link.run(damage)
    assert post(place, body, SUPERUSER).status == 409
    refused = post(place, {"token": token, **subscription}, SUPERUSER)
    assert (refused.status, "damaged" in refused.json["reason"]) == (409, True)

    async def stored(engine: Engine) -> bytes:
        return (await engine.store.get(path))[0]

    assert cluster.link.run(stored) == damaged


async def test_a_role_is_not_taken_from_a_damaged_subscription() -> None:
    store = MemoryServer().session()
    damaged = encode_json({"auth_policies": {"subscription_auth_roles": {"s": "own"}}})
    await store.create(paths.namespace_policies("t1/n"), damaged, make_parents=True)
    with pytest.raises(Conflict, match="damaged"):
        await grants.revoke_on_subscription(store, NamespaceName.of("t1", "n"), "s", "o")
    assert (await store.get(paths.namespace_policies("t1/n")))[0] == damaged
