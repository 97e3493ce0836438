"""Metadata URLs (Pulsar's ``metadataStoreUrl``), and the connection to the store that a URL names."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from engine.base.entropy import Entropy, RandomEntropy
from engine.base.errors import MisuseError
from engine.base.settings import SettingsError
from engine.metadata.store import MetadataStore
from engine.metadata.tree import check_path
from engine.net.network import LoopNetwork, Network
from engine.net.tls import ClientFiles

ZOOKEEPER, ETCD = "zk", "etcd"
FORM = (
    "zk:host:port[,host:port][/chroot] or etcd:http[s]://host:port[,http[s]://host:port][/chroot]"
)
NOT_BUILT = frozenset({"memory", "oxia", "rocksdb"})
"""Schemes of Pulsar that are not supported."""
TLS_REFRESH_S = 300.0
"""Time after which a new connection looks whether the TLS files have changed."""


class MetadataUrl(NamedTuple):
    """Parts of a metadata URL.

    ``hosts`` is ``host:port[,…]`` for ZooKeeper, and URLs of members with commas between for etcd; all nodes are stored
    below ``chroot``, which is ``""`` or ``/path``.
    """

    scheme: str
    hosts: str
    chroot: str

    @classmethod
    def parse(cls, url: str, setting: str = "metadata_url") -> "MetadataUrl":
        """Parse a URL. Raises SettingsError, in one line that names ``setting`` and the form."""
        scheme, _, location = url.partition(":")
        if scheme == ETCD:
            parsed = cls._etcd(location)
        else:
            hosts, _, path = location.removeprefix("//").partition("/")
            valid = scheme == ZOOKEEPER and all(map(_is_address, hosts.split(",")))
            parsed = cls(scheme, hosts, f"/{path}" if path else "") if valid else None
        if parsed is not None and _is_path(parsed.chroot or "/"):
            return parsed
        reason = f": {scheme} is not built" if scheme in NOT_BUILT else ""
        raise SettingsError(f"{setting} must be {FORM}, not {url!r}{reason}")

    @classmethod
    def _etcd(cls, location: str) -> "MetadataUrl | None":
        """Return the parts of a URL of etcd; None for another form."""
        *others, last = location.split(",")
        scheme, _, rest = last.partition("://")
        host, _, path = rest.partition("/")
        members = [*others, f"{scheme}://{host}"]
        for member in members:
            scheme, _, host = member.partition("://")
            if scheme not in ("http", "https") or not _is_address(host):
                return None
        return cls(ETCD, ",".join(members), f"/{path}" if path else "")


@dataclass(frozen=True, slots=True)
class Access:
    """Means of access to a store: TLS files, for members of etcd with https and for ZooKeeper with ``zookeeper_tls``,
    and a user with a password. ``private``: nodes that are created in ZooKeeper are for that user alone."""

    tls: ClientFiles = field(default_factory=ClientFiles)
    user: str = ""
    password: str = field(default="", repr=False)
    zookeeper_tls: bool = False
    private: bool = False


NO_ACCESS = Access()


class _Session(MetadataStore, Protocol):
    async def start(self, timeout_s: float) -> None: ...


async def connect(
    url: str,
    *,
    access: Access = NO_ACCESS,
    session_timeout_s: float = 10.0,
    connect_timeout_s: float = 15.0,
) -> MetadataStore:
    """Open a session with the store that ``url`` names, and create the chroot.

    Raises SettingsError, also when the store refuses the user; TlsFileError; StoreUnavailableError when no server
    answers within ``connect_timeout_s``.
    """
    parsed = MetadataUrl.parse(url)
    if parsed.scheme == ETCD:
        store = _etcd(parsed, access, session_timeout_s, LoopNetwork(), RandomEntropy())
    else:
        store = _zookeeper(parsed, access, session_timeout_s)
    try:
        await store.start(connect_timeout_s)
    except BaseException:
        await store.close()
        raise
    return store


# Imported there, because loading kazoo or h11 would slow down programs that only check their settings.


def _zookeeper(url: MetadataUrl, access: Access, session_timeout_s: float) -> _Session:
    from engine.metadata.zookeeper import ZooKeeperStore

    if access.zookeeper_tls:
        access.tls.context()  # so that unusable files end the start
    return ZooKeeperStore(
        url.hosts,
        session_timeout_s,
        url.chroot,
        tls=access.tls.context if access.zookeeper_tls else None,
        user=f"{access.user}:{access.password}" if access.user else "",
        private=access.private,
    )


def _etcd(
    url: MetadataUrl,
    access: Access,
    session_timeout_s: float,
    network: Network,
    entropy: Entropy,
) -> _Session:
    from engine.metadata.etcd.etcd_store import EtcdStore
    from engine.metadata.etcd.gateway import EtcdUser

    members = url.hosts.split(",")
    secure = any(member.startswith("https:") for member in members)
    return EtcdStore(
        members,
        session_timeout_s,
        url.chroot,
        network=network,
        tls=access.tls.reloaded(TLS_REFRESH_S) if secure else None,
        user=EtcdUser(access.user, access.password) if access.user else None,
        first=entropy.below(len(members)),
    )


def _is_address(text: str) -> bool:
    """Return whether a text is ``host``, ``host:port`` or ``[IPv6]:port``, without a user or a path."""
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) and parts.port != 0 and parts.netloc == text and "@" not in text
    except ValueError:
        return False


def _is_path(path: str) -> bool:
    try:
        check_path(path)
    except MisuseError:
        return False
    return True
