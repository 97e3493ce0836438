"""A link to recorded answers of Apache Pulsar."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.metadata.store import StoreUnavailableError
from engine.tenancy.tenants import list_tenants
from gateway.apache import inventory
from gateway.apache.connecting import apache_link
from gateway.apache_settings import ApacheCluster
from gateway.services.engine_link import EngineLink
from tests.support.net.recorded_apache import TOKEN, RecordedApache, recorded_apache


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the recorded answers as fast as they come."""
    monkeypatch.setattr(inventory, "FIRST_REQUESTS_PER_S", 10_000.0)


@pytest.fixture
def apache() -> Iterator[RecordedApache]:
    with recorded_apache() as server:
        yield server


@pytest.fixture
def apache_cluster(apache: RecordedApache, tmp_path: Path) -> ApacheCluster:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    return ApacheCluster("theirs", apache.url, "us", str(token))


@pytest.fixture
def link(apache_cluster: ApacheCluster) -> Iterator[EngineLink]:
    link = apache_link(apache_cluster)
    while link.opened is None:
        with suppress(StoreUnavailableError, TimeoutError):  # a busy machine needs longer
            link.run(lambda engine: list_tenants(engine.store))
    yield link
    link.close()
