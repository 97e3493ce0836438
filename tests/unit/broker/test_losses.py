"""The open clients that a change of rights would close are those that the change then closes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from engine.admin.api.losses import LOSSES, ChangedRecords
from engine.auth.actions import Action
from engine.auth.resource_names import TenantName
from engine.auth.rights import all_of
from engine.base.errors import NotReady
from engine.metadata.store import StoreUnavailableError
from engine.tenancy import grants
from tests.support.access.guarded_broker import NAMESPACE, OTHER, Guarded, guarded

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def broker() -> AsyncIterator[Guarded]:
    async with guarded() as broker:
        yield broker


async def opened(broker: Guarded) -> None:
    """Open a producer and a consumer of each role on the topic, and a producer of the administrator elsewhere."""
    for role in ("app", "other"):
        await broker.grant(role, "produce", "consume")
        client = broker.client(role)
        await client.produce(number=1)
        await client.consume(subscription=role, number=2)
    behind = broker.client("proxy", original="app")
    await behind.consume(subscription="app2", number=1)
    admin = broker.client("admin")
    await admin.produce(number=1)
    await admin.produce(OTHER.topic("t"), number=2)


async def without_app(broker: Guarded) -> ChangedRecords:
    granted = {"other": ["produce", "consume"]}
    return ChangedRecords(
        "public", ["admin"], str(NAMESPACE), {"auth_policies": {"namespace_auth": granted}}
    )


async def revoke_app(broker: Guarded) -> None:
    await broker.revoke("app")


async def without_consuming(broker: Guarded) -> ChangedRecords:
    granted = {"app": ["produce"], "other": ["produce", "consume"]}
    return ChangedRecords(
        "public", ["admin"], str(NAMESPACE), {"auth_policies": {"namespace_auth": granted}}
    )


async def revoke_consuming(broker: Guarded) -> None:
    await broker.grant("app", "produce")


async def closed_subscription(broker: Guarded) -> ChangedRecords:
    granted = {role: ["produce", "consume"] for role in ("app", "other")}
    rules = {"namespace_auth": granted, "subscription_auth_roles": {"app": ["other"]}}
    return ChangedRecords("public", ["admin"], str(NAMESPACE), {"auth_policies": rules})


async def close_subscription(broker: Guarded) -> None:
    await grants.grant_on_subscription(broker.writer, NAMESPACE, "app", ["other"])


async def without_admin(broker: Guarded) -> ChangedRecords:
    return ChangedRecords("public", [])


async def remove_admin(broker: Guarded) -> None:
    await broker.administer()


Change = Callable[[Guarded], Awaitable[Any]]


@pytest.mark.parametrize(
    ("asked", "change", "counts"),
    [
        (without_app, revoke_app, (1, 2, 1)),
        (without_consuming, revoke_consuming, (0, 2, 1)),
        (closed_subscription, close_subscription, (0, 1, 0)),
        (without_admin, remove_admin, (2, 0, 0)),
    ],
)
async def test_a_change_closes_the_clients_that_its_preview_counts(
    asked: Change, change: Change, counts: tuple[int, int, int], broker: Guarded
) -> None:
    await opened(broker)
    records = await asked(broker)
    before = await broker.revocation.losses(records)
    assert (before["producers"], before["consumers"], before["by_proxy"]) == counts
    assert (before["closed_producers"], before["closed_consumers"]) == (0, 0)
    await change(broker)
    after: dict[str, int] = {}

    async def closed() -> bool:
        after.update(await broker.revocation.losses(records))
        return not after["producers"] + after["consumers"]

    while not await closed():
        await asyncio.sleep(0.05)
    assert (after["closed_producers"], after["closed_consumers"]) == counts[:2]
    kinds = [kind for wire in broker.wires for kind in wire.kinds()]
    assert (kinds.count("CLOSE_PRODUCER"), kinds.count("CLOSE_CONSUMER")) == counts[:2]


async def test_counting_closes_nothing(broker: Guarded) -> None:
    await opened(broker)
    await broker.revocation.losses(ChangedRecords("public", [], str(NAMESPACE)))
    assert not [kind for wire in broker.wires for kind in wire.kinds() if kind.startswith("CLOSE")]
    assert (await broker.revocation.losses(ChangedRecords("elsewhere", [])))["producers"] == 0


async def test_losses_are_not_known_while_a_record_cannot_be_read(broker: Guarded) -> None:
    await opened(broker)
    await broker.revoke("other")
    broker.fail_reads(True)
    broker.records._changed(NAMESPACE, broker.records._records[NAMESPACE])
    with pytest.raises((NotReady, StoreUnavailableError)):
        await broker.revocation.losses(ChangedRecords("public", []))


def test_the_count_needs_an_administrator_of_the_tenant() -> None:
    [right] = all_of(LOSSES.rights)
    assert right.action is Action.TENANT_ADMIN
    assert list(right.of(ChangedRecords("public", []))) == [TenantName("public")]
    with pytest.raises(ValueError, match="must be of the tenant"):
        ChangedRecords("public", [], "publicity/x")
