"""A copy is stopped by the role that started it and by those who may start it, not by all who may see it."""

import pytest
from django.conf import settings

from engine.base.names import NamespaceName
from engine.tenancy.grants import grant, revoke
from gateway.clusters.cluster import Cluster
from gateway.copies.models import CopyJob, CopyState
from gateway.services.engine_link import Engine
from tests.support.access.callers import bearer, by_token
from tests.support.admin.gateway_client import Gateway, call, cluster, engine, gateway
from tests.unit.admin_ui.access.test_rights_pages import filled

__all__ = ["call", "cluster", "engine", "gateway"]
NAMESPACE = NamespaceName.of("t1", "n")
SOURCE = str(NAMESPACE.topic("p"))
TARGET = str(NAMESPACE.topic("copied"))
STOP = "/api/v1/clusters/standalone/copies/copy1/stop"


@pytest.fixture
def served(call: Gateway, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    async def granted(engine: Engine) -> None:
        await filled(engine)
        await grant(engine.store, NAMESPACE, "reader", ["consume"])
        await grant(engine.store, NAMESPACE, "copier", ["consume", "produce"])
        await grant(engine.store, NAMESPACE, "starter", ["consume", "produce"])

    cluster.link.run(granted)
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    CopyJob.objects.create(
        id="copy1",
        mode="copy",
        source=SOURCE,
        target=TARGET,
        rate=10,
        plan={"targets": {TARGET: {"partitions": 0, "deduplicated": False}}, "sources": []},
        state=CopyState.STOPPED,
        created_at=1,
        created_by="starter",
    )
    return call


@pytest.mark.parametrize(
    ("role", "status"), [("reader", 403), ("copier", 200), ("starter", 200), ("stranger", 404)]
)
def test_only_who_started_a_copy_or_may_start_it_stops_it(
    served: Gateway, role: str, status: int
) -> None:
    answer = served("POST", STOP, {}, headers=bearer(role))
    assert answer.status == status, answer.body


def test_the_starter_stops_a_copy_that_it_may_not_start_any_more(
    served: Gateway, cluster: Cluster
) -> None:
    async def lost(engine: Engine) -> None:
        await revoke(engine.store, NAMESPACE, "starter")
        await grant(engine.store, NAMESPACE, "starter", ["consume"])

    cluster.link.run(lost)
    assert served("POST", STOP, {}, headers=bearer("starter")).status == 200
