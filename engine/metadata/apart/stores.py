"""The stores of a cluster by their URLs: Pulsar's configuration store and BookKeeper's may be apart from its own."""

from collections.abc import Callable
from typing import NamedTuple

from engine.base.settings import SettingsError
from engine.metadata.apart.routed import BOOKKEEPER, CONFIGURATION, OtherStore, RoutedStore
from engine.metadata.connect import FORM, NO_ACCESS, Access, MetadataUrl, connect
from engine.metadata.store import MetadataStore

SERVICE_FORM = (
    "zk+hierarchical://host:port[;host:port][/chroot]/ledgers or metadata-store:METADATA_URL"
)
_DRIVERS = frozenset({"zk", "zk+hierarchical", "zk+null"})
"""Schemes of BookKeeper's service URIs of the supported layout."""
_METADATA_STORE = "metadata-store:"


class StoreUrls(NamedTuple):
    """Metadata URLs of a cluster's stores. ``configuration`` and ``bookkeeper`` are empty where they are ``metadata``.

    ``bookkeeper`` is a metadata URL as well, the parent of ``/ledgers``.
    """

    metadata: str
    configuration: str = ""
    bookkeeper: str = ""

    @classmethod
    def parse(
        cls,
        metadata: str,
        configuration: str = "",
        bookkeeper_uri: str = "",
        *,
        settings: tuple[str, str, str] = (
            "metadata_url",
            "configuration_metadata_store_url",
            "bookkeeper_metadata_service_uri",
        ),
    ) -> "StoreUrls":
        """Return the checked URLs; an empty one means the metadata store.

        Raises SettingsError, which names one of ``settings``, the names of the arguments.
        """
        MetadataUrl.parse(metadata, settings[0])
        if configuration:
            MetadataUrl.parse(configuration, settings[1])
        bookkeeper = bookkeeper_url(bookkeeper_uri, settings[2]) if bookkeeper_uri else ""
        return cls(
            metadata,
            "" if configuration == metadata else configuration,
            "" if bookkeeper == metadata else bookkeeper,
        )

    @property
    def of_bookies(self) -> str:
        """The URL of the store that bookies use."""
        return self.bookkeeper or self.metadata

    @property
    def of_configuration(self) -> str:
        """The URL of the store with tenants, policies, clusters and partitioned topics."""
        return self.configuration or self.metadata

    @property
    def service_uri(self) -> str:
        """BookKeeper's service URI of the store that bookies use."""
        return f"{_METADATA_STORE}{self.of_bookies}"

    def by_role(self) -> dict[str, str]:
        """Return the URLs of the stores that are apart, by their keys of ``routed.PREFIXES``."""
        urls = {CONFIGURATION: self.configuration, BOOKKEEPER: self.bookkeeper}
        return {role: url for role, url in urls.items() if url}

    def others(self) -> dict[str, tuple[str, ...]]:
        """Return the URLs besides ``metadata``, each with its roles."""
        roles: dict[str, tuple[str, ...]] = {}
        for role, url in self.by_role().items():
            roles[url] = (*roles.get(url, ()), role)
        return roles


def bookkeeper_url(uri: str, setting: str) -> str:
    """Return the metadata URL of a BookKeeper service URI. Raises SettingsError that names ``setting``."""
    if uri.startswith(_METADATA_STORE):
        url = uri.removeprefix(_METADATA_STORE)
        MetadataUrl.parse(url, setting)
        return url
    scheme, separator, location = uri.partition("://")
    hosts, _, path = location.partition("/")
    chroot, _, last = f"/{path}".rpartition("/")
    if separator and scheme in _DRIVERS and last == "ledgers":
        url = f"zk:{hosts.replace(';', ',')}{chroot}"
        try:
            MetadataUrl.parse(url, setting)
        except SettingsError:
            pass
        else:
            return url
    raise SettingsError(f"{setting} must be {SERVICE_FORM} ({FORM}), not {uri!r}")


def _same(store: MetadataStore) -> MetadataStore:
    return store


async def connect_stores(
    urls: StoreUrls,
    *,
    access: Access = NO_ACCESS,
    session_timeout_s: float = 10.0,
    connect_timeout_s: float = 15.0,
    wrap: Callable[[MetadataStore], MetadataStore] = _same,
) -> MetadataStore:
    """Open one session with each store of ``urls``. ``access``: to each of them. ``wrap``: makes what serves a
    session, such as a cache.

    Raises SettingsError, TlsFileError, and StoreUnavailableError when one does not answer within ``connect_timeout_s``,
    by its name if it is apart.
    """
    sessions: list[MetadataStore] = []
    others: list[OtherStore] = []

    async def opened(url: str) -> MetadataStore:
        store = wrap(
            await connect(
                url,
                access=access,
                session_timeout_s=session_timeout_s,
                connect_timeout_s=connect_timeout_s,
            )
        )
        sessions.append(store)
        return store

    try:
        local = await opened(urls.metadata)
        for url, roles in urls.others().items():
            other = OtherStore(roles, url, local)
            with other.named():
                others.append(other._replace(store=await opened(url)))
    except BaseException:
        for store in sessions:
            await store.close()
        raise
    return RoutedStore(local, *others) if others else local
