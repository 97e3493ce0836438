"""URLs of the stores of a cluster, and the sessions that are opened for them."""

from typing import Any

import pytest

from engine.base.settings import SettingsError
from engine.metadata.apart import stores
from engine.metadata.apart.routed import (
    BOOKKEEPER,
    CONFIGURATION,
    OtherStoreUnavailableError,
    RoutedStore,
)
from engine.metadata.apart.stores import StoreUrls, bookkeeper_url, connect_stores
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.store import MetadataStore, StoreUnavailableError

NAME = "bookkeeper_metadata_service_uri"


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("zk+hierarchical://a:1/ledgers", "zk:a:1"),
        ("zk+hierarchical://a:1;b:2/eu/ledgers", "zk:a:1,b:2/eu"),
        ("zk://a:1,b:2/eu/ledgers", "zk:a:1,b:2/eu"),
        ("zk+null://a:1/ledgers", "zk:a:1"),
        ("metadata-store:zk:a:1,b:2/eu", "zk:a:1,b:2/eu"),
    ],
)
def test_a_service_uri_names_the_parent_of_the_ledgers(uri: str, url: str) -> None:
    assert bookkeeper_url(uri, NAME) == url


@pytest.mark.parametrize(
    "uri",
    [
        "zk:a:1",
        "zk+hierarchical://a:1",
        "zk+hierarchical://a:1/other",
        "zk+hierarchical:///ledgers",
        "zk+flat://a:1/ledgers",
        "zk+longhierarchical://a:1/ledgers",
        "metadata-store:a:1",
    ],
)
def test_another_service_uri_is_refused_by_the_name_of_the_setting(uri: str) -> None:
    with pytest.raises(SettingsError, match=f"{NAME} must be zk"):
        bookkeeper_url(uri, NAME)


def test_a_store_that_is_not_apart_is_the_metadata_store() -> None:
    assert StoreUrls.parse("zk:a:1", "", "") == StoreUrls("zk:a:1")
    same = StoreUrls.parse("zk:a:1", "zk:a:1", "zk+hierarchical://a:1/ledgers")
    assert same == StoreUrls("zk:a:1")
    assert (same.of_bookies, same.of_configuration, same.others()) == ("zk:a:1", "zk:a:1", {})


def test_stores_with_one_url_share_a_session() -> None:
    urls = StoreUrls.parse("zk:a:1", "zk:b:1", "zk+hierarchical://b:1/ledgers")
    assert urls.others() == {"zk:b:1": (CONFIGURATION, BOOKKEEPER)}


def test_each_url_is_checked_by_its_name() -> None:
    names = ("-md", "-cms", "--uri")
    for index, name in enumerate(names):
        given = ["zk:a:1", "zk:b:1", "zk+hierarchical://c:1/ledgers"]
        given[index] = "nonsense"
        with pytest.raises(SettingsError, match=f"^{name} must be "):
            StoreUrls.parse(*given, settings=names)


class Servers:
    """Servers by URL in place of real ones; ``away``: URLs at which none answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_url: dict[str, MemoryServer] = {}
        self.away: set[str] = set()
        self.sessions: list[MemoryStore] = []
        monkeypatch.setattr(stores, "connect", self._connect)

    async def _connect(self, url: str, **_: Any) -> MetadataStore:
        if url in self.away:
            raise StoreUnavailableError("no answer")
        self.sessions.append(self.by_url.setdefault(url, MemoryServer()).session())
        return self.sessions[-1]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    return Servers(monkeypatch)


async def test_one_session_is_opened_for_each_url(servers: Servers) -> None:
    single = await connect_stores(StoreUrls("zk:a"))
    assert isinstance(single, MemoryStore)
    routed = await connect_stores(StoreUrls("zk:a", "zk:b", "zk:c"))
    assert isinstance(routed, RoutedStore)
    assert len(servers.sessions) == 4
    assert [(other.roles, other.url) for other in routed.others] == [
        ((CONFIGURATION,), "zk:b"),
        ((BOOKKEEPER,), "zk:c"),
    ]
    await single.close()
    await routed.close()


async def test_a_store_that_does_not_answer_is_named_and_no_session_is_left(
    servers: Servers,
) -> None:
    servers.away.add("zk:c")
    text = r"The BookKeeper metadata store \(zk:c\) does not answer: no answer"
    with pytest.raises(OtherStoreUnavailableError, match=text):
        await connect_stores(StoreUrls("zk:a", "zk:b", "zk:c"))
    assert [store._closed for store in servers.sessions] == [True, True]
