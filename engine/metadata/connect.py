"""Metadata URLs (Pulsar's ``metadataStoreUrl``), and the connection to the store that a URL names."""

from typing import NamedTuple
from urllib.parse import urlsplit

from engine.base.errors import MisuseError
from engine.base.settings import SettingsError
from engine.metadata.store import MetadataStore
from engine.metadata.tree import check_path

FORM = "zk:host:port[,host:port][/chroot]"
NOT_BUILT = frozenset({"etcd", "memory", "oxia", "rocksdb"})
"""Schemes of Pulsar that are not supported."""


class MetadataUrl(NamedTuple):
    """Parts of a metadata URL.

    ``hosts`` is ``host:port[,…]``; all nodes are stored below ``chroot``, which is ``""`` or ``/path``.
    """

    hosts: str
    chroot: str

    @classmethod
    def parse(cls, url: str, setting: str = "metadata_url") -> "MetadataUrl":
        """Parse a URL. Raises SettingsError, in one line that names ``setting`` and the form."""
        scheme, _, location = url.partition(":")
        hosts, _, path = location.removeprefix("//").partition("/")
        chroot = f"/{path}" if path else ""
        if scheme == "zk" and all(map(_is_address, hosts.split(","))) and _is_path(chroot or "/"):
            return cls(hosts, chroot)
        reason = f": {scheme} is not built" if scheme in NOT_BUILT else ""
        raise SettingsError(f"{setting} must be {FORM}, not {url!r}{reason}")


async def connect(
    url: str,
    *,
    session_timeout_s: float = 10.0,
    connect_timeout_s: float = 15.0,
) -> MetadataStore:
    """Open a session with the store that ``url`` names, and create the chroot.

    Raises SettingsError, or StoreUnavailableError when no server answers within ``connect_timeout_s``.
    """
    hosts, chroot = MetadataUrl.parse(url)
    # Imported here, because loading kazoo would slow down programs that only check their settings.
    from engine.metadata.zookeeper import ZooKeeperStore

    store = ZooKeeperStore(hosts, session_timeout_s, chroot)
    try:
        await store.start(connect_timeout_s)
    except BaseException:
        await store.close()
        raise
    return store


def _is_address(text: str) -> bool:
    """Return whether a text is ``host``, ``host:port`` or ``[IPv6]:port``; the default port is ZooKeeper's."""
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except MisuseError:
        return False
    return True
