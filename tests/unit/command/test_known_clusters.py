"""The option --cluster: the addresses of another cluster are those of its record."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.command.connecting import known_clusters
from magnetar.command.connecting.known_clusters import in_cluster
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

HERE = ClusterAddress("pulsar://here:6650", "http://here:8080", token="t")
RECORD = {
    "brokerServiceUrl": "pulsar://a:6650,b:6650",
    "serviceUrl": "http://here:8080/clusters/eu%3A1/",
    "brokerServiceUrlTls": "pulsar+ssl://a:6651",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []

    class Administration:
        async def call(self, method: str, path: str) -> Any:
            calls.append((method, path))
            return RECORD

    @asynccontextmanager
    async def administered(_: ClusterAddress) -> AsyncIterator[Administration]:
        yield Administration()

    monkeypatch.setattr(known_clusters, "administered", administered)
    return calls


def test_addresses_are_those_of_the_record_and_credentials_stay(
    asked: list[tuple[str, str]],
) -> None:
    there = in_cluster(HERE, "eu:1")
    assert asked == [("GET", "/admin/v2/clusters/eu%3A1")]
    assert there.urls == ["pulsar://a:6650", "pulsar://b:6650"]
    assert there.admin_url == "http://here:8080/clusters/eu%3A1"
    assert there.token == "t"


@pytest.mark.usefixtures("asked")
def test_a_record_without_an_address_by_tls_is_refused_where_the_connection_has_tls() -> None:
    with pytest.raises(CommandFailed, match="eu has no serviceUrlTls") as failed:
        in_cluster(ClusterAddress("pulsar+ssl://here:6651", "https://here:8443"), "eu")
    assert failed.value.exit_code == Exit.MISSING
