"""The clusters of the settings."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.auth.internal import TOKEN_FILE
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.incomplete import RESTORING, IncompleteStoreError
from engine.metadata.memory import MemoryServer
from engine.metadata.store import SessionExpiredError
from gateway.clusters import configured
from gateway.clusters.configured import configured_clusters, internal_token
from gateway.environment import ClusterSettings
from gateway.http.errors import describe
from gateway.services.health.checks import UnwellError
from gateway.services.health.parts import Store

OWN, THEIRS = "a" * 32, "b" * 32


@pytest.fixture
def two(tmp_path: Path) -> tuple[ClusterSettings, ClusterSettings]:
    """The default cluster and a further one, of which the first has a token."""
    folder = tmp_path / "clusters" / "west"
    folder.mkdir(parents=True)
    (tmp_path / TOKEN_FILE).write_text(OWN)
    return (
        ClusterSettings("home", StoreUrls("zk:h:2181"), tmp_path, tmp_path),
        ClusterSettings("west", StoreUrls("zk:w:2181"), folder, tmp_path),
    )


def test_each_is_served_with_a_link_to_its_own_store(
    two: tuple[ClusterSettings, ClusterSettings], settings: Any
) -> None:
    settings.CLUSTERS = two
    loop = asyncio.new_event_loop()
    clusters = configured_clusters(loop)
    assert clusters.names == ["home", "west"]
    assert [cluster.link.address for cluster in clusters] == ["zk:h:2181", "zk:w:2181"]
    assert [cluster.link.loop for cluster in clusters] == [loop, loop]
    loop.close()


async def test_a_store_with_an_interrupted_restore_is_not_used_until_it_is_complete(
    two: tuple[ClusterSettings, ClusterSettings], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CLUSTERS = two
    server = MemoryServer()
    await server.session().create(RESTORING, b"backup-1")
    opened: list[Any] = []

    async def connected(*_: Any, **__: Any) -> Any:
        opened.append(server.session())
        return opened[-1]

    monkeypatch.setattr(configured, "connect_stores", connected)
    clusters = configured.configured_clusters(asyncio.get_running_loop())
    link = clusters.default.link
    with pytest.raises(IncompleteStoreError, match="complete it with magnetar restore") as refused:
        await link.engine()
    assert describe(refused.value) == (503, str(refused.value))
    with pytest.raises(SessionExpiredError):
        await opened[0].exists(RESTORING)
    with pytest.raises(UnwellError, match=r"is not used: .* magnetar restore"):
        await Store(link, "zk:h:2181").check()
    await server.session().delete(RESTORING)
    assert (await link.engine()).store is opened[-1]


def test_a_further_cluster_has_the_token_of_its_folder_or_else_the_gateways(
    two: tuple[ClusterSettings, ClusterSettings],
) -> None:
    home, west = two
    assert (internal_token(home), internal_token(west)) == (OWN, OWN)
    (west.folder / TOKEN_FILE).write_text(THEIRS)
    assert (internal_token(home), internal_token(west)) == (OWN, THEIRS)
