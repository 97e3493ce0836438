"""Fixtures shared by the tests of the admin REST beside Apache's."""

import time
from collections.abc import Callable, Iterator

import pytest

from engine.tenancy.tenants import list_tenants
from gateway.apache.connecting import apache_link
from gateway.apache_settings import ApacheCluster
from gateway.services.engine_link import EngineLink
from tests.interop.schemas.programs import UnavailableError
from tests.oracle.admin import go_library
from tests.oracle.conftest import Side


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that makes calls of the Go admin library; skipped, saying why, where there is no Go."""
    try:
        return go_library.build(tmp_path_factory.mktemp("library"))
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def apache_cluster(sides: tuple[Side, Side]) -> ApacheCluster:
    """Apache's cluster as the console is configured for it."""
    theirs, _ = sides
    status, body = theirs.call("GET", "/admin/v2/clusters")
    assert status == 200
    name = next(item for item in ("standalone", "us") if item.encode() in body)
    return ApacheCluster("theirs", theirs.http.rstrip("/"), name)


@pytest.fixture(scope="module")
def link_to() -> Iterator[Callable[[ApacheCluster], EngineLink]]:
    """Return the link of a console to a cluster, which knows the cluster by then."""
    links = []

    def opened(cluster: ApacheCluster) -> EngineLink:
        link = apache_link(cluster)
        links.append(link)
        deadline = time.monotonic() + 60
        while True:
            try:
                link.run(lambda engine: list_tenants(engine.store))
                return link
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    yield opened
    for link in links:
        link.close()


@pytest.fixture(scope="module")
def link(
    apache_cluster: ApacheCluster, link_to: Callable[[ApacheCluster], EngineLink]
) -> EngineLink:
    """The link of a console to Apache's cluster."""
    return link_to(apache_cluster)
