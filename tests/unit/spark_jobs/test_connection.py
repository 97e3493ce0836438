"""Kept connections of a process: work on their loop, and new ones once a session has expired."""

from dataclasses import replace
from typing import Any

import pytest

from engine.base.clock import SystemClock
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore, NoNodeError, SessionState, StoreUnavailableError
from spark_jobs.pulsar_source import connection
from spark_jobs.pulsar_source.connection import link_to
from spark_jobs.pulsar_source.options import parse


def test_connections_are_kept_until_their_session_has_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[MetadataStore] = []

    async def connect(stores: StoreUrls, *, access: Any) -> MetadataStore:
        made.append(MemoryServer(SystemClock()).session(10.0))
        return made[-1]

    monkeypatch.setattr(connection, "connect_stores", connect)
    monkeypatch.setattr(connection, "_links", {})
    link = link_to(StoreUrls("zk:a:1"))
    assert link.run(link.store.create("/a")) == "/a"
    assert link.start(link.store.exists("/a")).result(60) is not None
    with pytest.raises(NoNodeError):
        link.run(link.store.get("/b"))
    assert link_to(StoreUrls("zk:a:1")) is link
    options = parse({"topic": "t", "metadata.url": "zk:a:1"})
    assert link.brokers(options) is None
    options = replace(options, service_url="pulsar://b:1,b:2")
    assert link.brokers(replace(options, read_from="bookies")) is None
    assert [link.brokers(replace(options, read_from=way)).alone for way in ("auto", "brokers")] == [
        False,
        True,
    ]
    assert link.brokers(options).client() is link.brokers(options).client()
    other = link_to(StoreUrls("zk:b:1"))
    assert other is not link

    monkeypatch.setattr(type(made[0]), "state", SessionState.EXPIRED)
    renewed = link_to(StoreUrls("zk:a:1"))
    assert renewed is not link
    assert len(made) == 3
    other.close()
    renewed.close()


def test_a_store_that_cannot_be_reached_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(stores: StoreUrls, *, access: Any) -> MetadataStore:
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(connection, "connect_stores", refuse)
    monkeypatch.setattr(connection, "_links", {})
    with pytest.raises(StoreUnavailableError):
        link_to(StoreUrls("zk:a:1"))
    assert connection._links == {}
