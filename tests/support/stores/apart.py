"""The metadata store, the configuration store and BookKeeper's store apart, in memory, and routed stores over them."""

from collections.abc import Callable

from engine.metadata.apart.routed import BOOKKEEPER, CONFIGURATION, OtherStore, RoutedStore
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.store import MetadataStore

LOCAL = "local"
SHORT_S = 0.9
"""Session timeout of stores that a test cuts off."""


class ApartStores:
    """Three servers by name, and ``session`` for a routed store over a session with each."""

    def __init__(self) -> None:
        self.servers = {name: MemoryServer() for name in (LOCAL, CONFIGURATION, BOOKKEEPER)}

    def session(
        self,
        timeout_s: float = 10.0,
        wrap: Callable[[MemoryStore], MetadataStore] = lambda store: store,
    ) -> "ApartSession":
        return ApartSession(self.servers, timeout_s, wrap)


class ApartSession(RoutedStore):
    """A routed store whose ``sessions`` a test can cut off."""

    def __init__(
        self,
        servers: dict[str, MemoryServer],
        timeout_s: float,
        wrap: Callable[[MemoryStore], MetadataStore],
    ) -> None:
        self.servers = servers
        self.sessions = {name: server.session(timeout_s) for name, server in servers.items()}
        by_name = {name: wrap(store) for name, store in self.sessions.items()}
        super().__init__(
            by_name.pop(LOCAL),
            *(OtherStore((name,), f"zk:{name}", store) for name, store in by_name.items()),
        )

    @property
    def configuration(self) -> MemoryStore:
        return self.sessions[CONFIGURATION]

    def cut(self, name: str = CONFIGURATION) -> None:
        """Make a store unreachable for this client."""
        self.servers[name].partition(self.sessions[name].session_id)

    def heal(self, name: str = CONFIGURATION) -> None:
        self.servers[name].heal(self.sessions[name].session_id)
