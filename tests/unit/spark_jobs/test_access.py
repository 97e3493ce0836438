"""Means of access of analyses: from the environment of the process, and not part of a plan."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from engine.base.clock import SystemClock
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.tls import TLS_FACTORY
from spark_jobs.pulsar_source import connection
from spark_jobs.pulsar_source.access import access_settings
from spark_jobs.pulsar_source.options import parse

OPTIONS = {"topic": "persistent://public/default/t", "metadata.url": "etcd:https://nowhere:1"}
ENVIRONMENT = {
    "MAGNETAR_METADATA_URL": "etcd:https://nowhere:1",
    "MAGNETAR_METADATA_USER": "reader",
    "MAGNETAR_METADATA_PASSWORD": "a-marked-secret",
    "MAGNETAR_BOOKKEEPER_TLS_PROVIDER_FACTORY_CLASS": TLS_FACTORY,
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    access_settings.cache_clear()
    yield
    access_settings.cache_clear()


async def test_a_task_connects_by_the_settings_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    async def connect(stores: Any, *, access: Any) -> MetadataStore:
        given.append(access)
        return MemoryServer(SystemClock()).session(10.0)

    monkeypatch.setattr(connection, "connect_stores", connect)
    async with connection.connected(parse(OPTIONS).stores) as (_, ledgers):
        assert ledgers.settings.bookie_tls_provider == TLS_FACTORY
    (access,) = given
    assert (access.user, access.password) == ("reader", "a-marked-secret")


def test_a_plan_has_no_secret_of_the_environment() -> None:
    assert b"a-marked-secret" not in pickle.dumps(parse(OPTIONS))
