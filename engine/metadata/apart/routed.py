"""One metadata store over several sessions: the path of a call chooses the session.

The *local* store has the broker's session: its state and id, and all ephemeral nodes whose owner is compared. The
*other* stores have only the nodes below their prefixes. The loss of another store's session is no loss of the local
one: its calls raise OtherStoreUnavailableError, which names it, and its watchers are notified when it is back (R2).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

from engine.base.errors import MisuseError
from engine.base.log import bound
from engine.metadata import paths
from engine.metadata.store import (
    ANY_VERSION,
    Found,
    MetadataStore,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreUnavailableError,
    Watch,
)

CONFIGURATION = "configuration"
BOOKKEEPER = "bookkeeper"
PREFIXES = {
    CONFIGURATION: (
        *(paths.CLUSTERS, paths.POLICIES, paths.PARTITIONED_TOPICS, paths.RESOURCE_GROUPS),
        *(paths.FLAGS, paths.REVOKED_TOKENS),
    ),
    BOOKKEEPER: (paths.LEDGERS,),
}
"""Roots of the trees in each store that may be apart. Racks (``/bookies``) are local, as Apache Pulsar has them."""
_NAMES = {CONFIGURATION: "configuration store", BOOKKEEPER: "BookKeeper metadata store"}


class OtherStoreUnavailableError(StoreUnavailableError):
    """A store besides the local one does not answer, or its session ended: the outcome of a write is unknown.

    The text is a sentence that names the store.
    """


class OtherStore(NamedTuple):
    """A store besides the local one. ``roles``: keys of PREFIXES. ``url``: for messages."""

    roles: tuple[str, ...]
    url: str
    store: MetadataStore

    @property
    def name(self) -> str:
        return " and ".join(_NAMES[role] for role in self.roles)

    @property
    def connected(self) -> bool:
        return self.store.state is SessionState.CONNECTED

    @contextmanager
    def named(self) -> Iterator[None]:
        """Raise this store's failures as OtherStoreUnavailableError.

        The end of its session must not be taken for the end of the local one.
        """
        try:
            yield
        except (StoreUnavailableError, SessionExpiredError) as error:
            reason = f"The {self.name} ({self.url}) does not answer: {error}"
            raise OtherStoreUnavailableError(reason) from error


class RoutedStore:
    """MetadataStore over ``local`` and ``others``, which it owns. A path outside all prefixes is local (R1)."""

    def __init__(self, local: MetadataStore, *others: OtherStore) -> None:
        self._local = local
        self.others = others
        self._by_prefix = {
            prefix: other for other in others for role in other.roles for prefix in PREFIXES[role]
        }
        self._log = bound(__name__)
        self._away = {other for other in others if not other.connected}
        for other in others:
            other.store.on_state(partial(self._on_other_state, other))

    # The session: the local store's

    @property
    def state(self) -> SessionState:
        return self._local.state

    @property
    def session_id(self) -> int:
        return self._local.session_id

    @property
    def session_proven(self) -> bool:
        return self._local.session_proven

    @property
    def session_proven_until_s(self) -> float:
        return self._local.session_proven_until_s

    @property
    def connection(self) -> int:
        return self._local.connection

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        return self._local.on_state(callback)

    def _on_other_state(self, other: OtherStore, state: SessionState) -> None:
        """Log the loss of another store and its return once."""
        away = state is not SessionState.CONNECTED
        if away and other not in self._away:
            self._away.add(other)
            self._log.warning(
                "the %s does not answer: what needs it is refused until it is back url=%s",
                other.name,
                other.url,
            )
        elif not away and other in self._away:
            self._away.remove(other)
            self._log.info("the %s is back url=%s", other.name, other.url)

    # Routes

    def _other(self, path: str) -> OtherStore | None:
        """Return the other store that has ``path``, None for a local path."""
        by_prefix = self._by_prefix
        first = path.find("/", 1)
        if first < 0:
            return by_prefix.get(path)
        other = by_prefix.get(path[:first])
        if other is not None:
            return other
        second = path.find("/", first + 1)
        return by_prefix.get(path if second < 0 else path[:second])

    def at(self, path: str) -> MetadataStore:
        """Return the store that has ``path``."""
        other = self._other(path)
        return self._local if other is None else other.store

    def naming(self, path: str) -> AbstractContextManager[None]:
        """Return a context in which failures of calls to ``at(path)`` name that store."""
        other = self._other(path)
        return nullcontext() if other is None else other.named()

    @property
    def stores(self) -> tuple[MetadataStore, ...]:
        """The local store and the others."""
        return (self._local, *(other.store for other in self.others))

    # Reads

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        other = self._other(path)
        if other is None:
            return await self._local.get(path, watch)
        with other.named():
            return await other.store.get(path, watch)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        other = self._other(path)
        if other is None:
            return await self._local.exists(path, watch)
        with other.named():
            return await other.store.exists(path, watch)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        other = self._other(path)
        if other is None:
            return await self._local.children(path, watch)
        with other.named():
            return await other.store.children(path, watch)

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        """Read each store's nodes in one request, one store after the other, in the order of the paths."""
        groups: dict[OtherStore | None, list[str]] = {}
        for path in paths:
            groups.setdefault(self._other(path), []).append(path)
        listing = self._other(parent) if parent is not None else None
        if parent is not None:
            groups.setdefault(listing, [])
        by_path: dict[str, Found] = {}
        names: list[str] = []
        for other, group in groups.items():
            lists = parent if parent is not None and other == listing else None
            if other is None:
                values, listed = await self._local.get_all(group, lists)
            else:
                with other.named():
                    values, listed = await other.store.get_all(group, lists)
            by_path.update(zip(group, values, strict=True))
            names = listed if lists is not None else names
        return [by_path[path] for path in paths], names

    # Writes

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        """Create a node. Raises MisuseError for an ephemeral one outside the local store.

        A sequence is allowed there: the node's owner is not compared with ``session_id``.
        """
        other = self._other(path)
        if other is None:
            return await self._local.create(
                path, value, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents
            )
        if ephemeral and not sequence:
            raise MisuseError(f"{path}: an ephemeral node belongs to the local store's session")
        with other.named():
            return await other.store.create(
                path, value, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents
            )

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        other = self._other(path)
        if other is None:
            return await self._local.put(path, value, version)
        with other.named():
            return await other.store.put(path, value, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        other = self._other(path)
        if other is None:
            return await self._local.delete(path, version)
        with other.named():
            return await other.store.delete(path, version)

    # Watches

    def unwatch(self, path: str, watch: Watch) -> None:
        self.at(path).unwatch(path, watch)

    def watch(self, path: str, callback: Watch) -> Callable[[], None]:
        return self.at(path).watch(path, callback)

    async def close(self) -> None:
        """End all sessions, the local one last: it is the one that others wait for."""
        try:
            for other in self.others:
                await other.store.close()
        finally:
            await self._local.close()


def store_at(store: MetadataStore, path: str) -> MetadataStore:
    """Return the store to which ``store`` routes ``path``, a single store itself."""
    return store.at(path) if isinstance(store, RoutedStore) else store


def are_together(store: MetadataStore, *paths: str) -> bool:
    """Return whether one session has all of ``paths``: then what it reads is not older than its last write to any."""
    return len({id(store_at(store, path)) for path in paths}) == 1


def connected(store: MetadataStore) -> dict[str, bool]:
    """Return whether each store answers: ``metadata`` is the local one, the others have their keys of PREFIXES."""
    answers = {"metadata": store.state is SessionState.CONNECTED}
    for other in store.others if isinstance(store, RoutedStore) else ():
        answers |= dict.fromkeys(other.roles, other.connected)
    return answers


def unavailable(error: Exception) -> str:
    """Return the sentence for a caller whose request failed with ``error`` of a store; it names another store."""
    if isinstance(error, OtherStoreUnavailableError):
        return str(error)
    return f"The metadata store does not answer: {error}"
