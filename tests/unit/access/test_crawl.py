"""A crawl of all that people can read: each finds its own tenant, and nothing of a tenant that it may not see."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from admin_ui.live import CHANNELS
from engine.base.names import TopicName
from engine.tenancy.topics import create_partitioned
from gateway.clusters.cluster import Cluster
from gateway.people.models import Person, PersonSession
from gateway.services.engine_link import Engine
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.callers import by_token
from tests.support.access.crawler import Crawl, canaries, subscriptions, targets
from tests.support.access.two_tenants import (
    CLUSTER,
    TENANTS,
    TwoTenants,
    canary,
    topic_of,
    two_tenants,
)
from tests.support.admin.clusters import cluster_of
from tests.support.admin.gateway_client import Gateway, call, gateway
from tests.support.net.socket_pair import SocketPair

__all__ = ["call", "gateway"]
PEOPLE: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "root": ("root", "full", TENANTS),
    canary(1, "person"): (canary(1, "admin"), "full", (1,)),
    canary(2, "person"): (canary(2, "admin"), "full", (2,)),
    "reader": (canary(1, "admin"), "read", (1,)),
    "stranger": ("stranger", "full", ()),
}
"""Role, level and seen tenants of each person."""
OF_A_TENANT = {
    *("tenant", "ns", "topic", "parts", "subscription", "lagging", "group", "key", "value"),
    *("property", "note", "doc", "annotation", "role", "writer", "reader", "admin"),
    *("payload", "header", "producer"),
    *("run", "parameter", "error", "result"),
    *("channel", "rule", "firing", "silence"),
}
"""Canary texts that the administrator of a tenant and a superuser are shown."""
OF_A_PERSON = {"person", "view", "query", "token", "jti1", "browser"}
"""Canary texts that the owner of a record is shown."""
OF_SUPERUSERS = {
    "person",
    "token",
    "jti0",
    "jti1",
    "browser",
}
"""Canary texts that superusers alone are shown, and the owner."""


@pytest.fixture
def instance() -> Iterator[TwoTenants]:
    with two_tenants() as made:
        yield made


@pytest.fixture
def cluster(instance: TwoTenants) -> Cluster:
    return cluster_of(instance.link)


def signed_in(gateway: Gateway, name: str) -> Browser:
    role, level, _ = PEOPLE[name]
    user = get_user_model().objects.create_user(name, password=PASSWORD)
    Person.objects.create(user=user, roles=[{"role": role, "level": level}])
    browser = Browser(gateway)
    assert browser.sign_in(name).status == 200
    text = name.replace("person", "browser")
    PersonSession.objects.filter(user_id=user.pk).update(browser=text)
    return browser


@pytest.fixture
def people(
    call: Gateway, instance: TwoTenants, cluster: Cluster, settings: Any
) -> dict[str, Crawl]:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.IDENTITY = by_token(authorization_enabled=True, super_user_roles="root")
    browsers = {name: signed_in(call, name) for name in PEOPLE}
    for tenant in TENANTS:
        instance.fill(browsers["root"], tenant)
    instance.report_lag(cluster.collector)
    cluster.link.run(cluster.collector._round)
    return {name: Crawl(call, browser.cookies) for name, browser in browsers.items()}


async def subscribed(
    crawl: Crawl, pair: SocketPair, channel: str, params: dict[str, str]
) -> dict[str, Any]:
    """Return the first push or the refusal of a subscription, which is noted; beats are noted, too."""
    request = json.dumps({"op": "subscribe", "id": "a", "channel": channel, "params": params})
    pair.send(request)
    while (message := json.loads(text := await pair.receive())).get("id") != "a":
        crawl.note("beat", text)
    crawl.note(request, text)
    return dict(message)


async def watch(crawl: Crawl, gateway: Gateway, instance: TwoTenants) -> None:
    """Subscribe to each channel of the live feed with each name of both tenants."""
    pair = await SocketPair(gateway.application, "/api/v1/live", crawl.headers).opened()
    for channel in CHANNELS.values():
        for params in subscriptions(channel, instance):
            await subscribed(crawl, pair, channel.name, params)
    await pair.hang_up()


def kinds(shown: dict[str, set[str]]) -> set[str]:
    """Return the canary texts of a tenant without its name."""
    return {text.split("-", 2)[2] for texts in shown.values() for text in texts}


def test_no_answer_and_no_push_has_anything_of_a_tenant_that_the_person_does_not_see(
    people: dict[str, Crawl], call: Gateway, instance: TwoTenants
) -> None:
    async def crawl(person: Crawl) -> None:
        await person.visit(targets(instance))
        await watch(person, call, instance)

    async def crawl_at_once() -> None:
        async with asyncio.TaskGroup() as tasks:
            for person in people.values():
                tasks.create_task(crawl(person))

    asyncio.run(crawl_at_once())
    for name, (_, level, seen) in PEOPLE.items():
        statuses = people[name].statuses
        assert [target for target, status in statuses.items() if status == 500] == []
        for tenant in TENANTS:
            shown = people[name].shown_of(tenant)
            if tenant not in seen:
                assert shown == {}, name
                continue
            # That much is shown proves that the crawl reaches the data.
            assert len(shown) > 90, (name, len(shown))
            owned = OF_SUPERUSERS if name == "root" else OF_A_PERSON if level == "full" else set()
            assert kinds(shown) >= OF_A_TENANT | owned, name
            pushed = {json.loads(request)["channel"] for request in shown if request[0] == "{"}
            assert pushed >= {"overview", "topics", "topic"}, name


def test_pushes_to_two_people_at_once_have_each_its_own_tenant_alone(
    people: dict[str, Crawl], call: Gateway, instance: TwoTenants, cluster: Cluster
) -> None:
    async def create(engine: Engine) -> None:
        for tenant in TENANTS:
            name = TopicName.parse(topic_of(tenant).replace("-topic", "-later"))
            await create_partitioned(engine.store, name, 2)
        await cluster.collector._round(engine)

    async def until_pushed(crawl: Crawl, pair: SocketPair, text: str) -> None:
        received = ""
        while text not in received:
            received = await pair.receive()
            crawl.note("push", received)

    async def both() -> None:
        crawls = {tenant: people[canary(tenant, "person")] for tenant in TENANTS}
        pairs = {
            tenant: await SocketPair(call.application, "/api/v1/live", crawl.headers).opened()
            for tenant, crawl in crawls.items()
        }
        for tenant, crawl in crawls.items():
            first = await subscribed(crawl, pairs[tenant], "topics", {"cluster": CLUSTER})
            assert canary(tenant, "topic") in canaries(json.dumps(first))
        await instance.link.arun(create)
        async with asyncio.TaskGroup() as tasks:
            for tenant, crawl in crawls.items():
                tasks.create_task(until_pushed(crawl, pairs[tenant], canary(tenant, "later")))
        for tenant, crawl in crawls.items():
            assert crawl.shown_of(3 - tenant) == {}
            await pairs[tenant].hang_up()

    asyncio.run(both())
