"""Ownership of bundles, which determines the broker that serves a topic.

A bundle's ownership is an ephemeral node of the broker's session: ``/namespace/<tenant>/<ns>/<range>`` holds the
owner's addresses (Apache Pulsar's layout). A broker owns a bundle from the creation of its node until it releases the
bundle, its session ends, or the node is removed. It stops acknowledging before the session can end
(``MetadataStore.session_proven``), so that two owners never acknowledge at the same time. Adds that an old owner still
sends to bookies are refused, because the next owner fences each ledger.

The owner of a bundle can split it: it claims the nodes of the parts, stores the new boundaries by compare-and-set,
replaces the bundle with its parts in memory, and removes the bundle's node. A broker that claims a bundle by outdated
boundaries checks, after it has created the node, that the bundle still exists.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from engine.base.errors import Conflict, MagnetarError
from engine.base.log import bound
from engine.base.names import HASH_TOP, BundleName, NamespaceName, TopicName
from engine.base.tasks import TaskScope, restarting
from engine.metadata import paths
from engine.metadata.apart.routed import OtherStoreUnavailableError
from engine.metadata.records import decode_json, encode_json
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from engine.metadata.update import update
from engine.net.listener_urls import (
    NO_LISTENERS,
    Listeners,
    ListenerUrls,
    decode_listeners,
    encode_listeners,
)
from engine.ownership.registration import BrokerRecord, claim
from engine.tenancy.bundles import BUNDLES_MAX, Bundles, encode_local_policies

NAMESPACES_KNOWN_MAX = 10_000
RETRY_S = 0.5
"""Seconds between attempts to remove the node of a released bundle, or to settle a split."""


class NoNamespaceError(MagnetarError):
    """The namespace does not exist, or has no bundles."""


class OwnerRecord(NamedTuple):
    """Addresses of a bundle's owner."""

    native_url: str
    http_url: str
    native_url_tls: str = ""
    """Service URL for TLS; empty when the owner does not listen for TLS."""
    http_url_tls: str = ""
    """URL of the owner's HTTP port with TLS; empty without one."""
    listeners: Listeners = NO_LISTENERS
    """Addresses by listener; empty where all clients receive the same."""

    @classmethod
    def of(cls, broker: BrokerRecord) -> "OwnerRecord":
        """Return the record of a bundle that this broker owns."""
        return cls(
            broker.service_url,
            broker.web_url,
            broker.service_url_tls,
            broker.web_url_tls,
            broker.listeners,
        )

    def urls_of(self, listener: str) -> ListenerUrls | None:
        """Return the addresses for clients of ``listener`` (empty: of none); None where the owner has no such
        (T7)."""
        if listener:
            return self.listeners.get(listener)
        return ListenerUrls(self.native_url, self.native_url_tls, self.http_url, self.http_url_tls)

    def encode(self) -> bytes:
        """Encode in Pulsar's key order."""
        value = {
            "nativeUrl": self.native_url,
            **({"nativeUrlTls": self.native_url_tls} if self.native_url_tls else {}),
            "httpUrl": self.http_url,
            **({"httpUrlTls": self.http_url_tls} if self.http_url_tls else {}),
            "disabled": False,
            "advertisedListeners": encode_listeners(self.listeners),
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "OwnerRecord":
        """Decode a stored record. Raises ValueError when it is not a JSON object."""
        record = decode_json(value or b"null", "bundle owner")
        return cls(
            str(record.get("nativeUrl") or ""),
            str(record.get("httpUrl") or ""),
            str(record.get("nativeUrlTls") or ""),
            str(record.get("httpUrlTls") or ""),
            decode_listeners(record.get("advertisedListeners")),
        )


class BundleOwnership:
    """Bundles that one broker owns. Created inside a running loop.

    ``on_lost(bundles)`` is called synchronously as soon as bundles are lost without having been released: their topics
    must stop acknowledging at once and be closed.
    """

    def __init__(
        self,
        store: MetadataStore,
        record: OwnerRecord,
        on_lost: Callable[[list[BundleName]], None],
    ) -> None:
        self._store = store
        self._record = record
        self._on_lost = on_lost
        self._owned: dict[
            BundleName, Callable[[], None]
        ] = {}  # bundle → function that stops its watch
        self._held: dict[NamespaceName, dict[BundleName, None]] = {}  # owned bundles by namespace
        self._watched: dict[
            NamespaceName, Callable[[], None]
        ] = {}  # held namespaces → stops the watch
        self._leaving: dict[BundleName, None] = {}  # owned bundles that are being released
        self._splitting: dict[BundleName, list[BundleName]] = {}  # bundle → its parts
        self._locks: dict[BundleName, asyncio.Lock] = {}
        self._namespaces: OrderedDict[NamespaceName, tuple[Bundles, Callable[[], None]]] = (
            OrderedDict()
        )
        self._reading: dict[NamespaceName, bool] = {}  # removed by a change since the read began
        self._tasks = TaskScope("ownership")
        self._stop_listening = store.on_state(self._on_state)
        self._log = bound(__name__, url=record.native_url)

    # State in memory

    def serves(self, topic: TopicName) -> bool:
        """Return whether this broker owns the topic's bundle and may acknowledge for it at this moment (O2)."""
        bundle = self._held_bundle(topic)
        return bundle is not None and bundle not in self._leaving and self._proven()

    def _held_bundle(self, topic: TopicName) -> BundleName | None:
        for bundle in self._held.get(topic.namespace, ()):
            if bundle.holds(topic.bundle_hash):
                return bundle
        return None

    def known_bundle(self, topic: TopicName) -> BundleName | None:
        """Return the topic's bundle if it is held here or its namespace's boundaries are cached, else None."""
        held = self._held_bundle(topic)
        if held is not None:
            return held
        known = self._namespaces.get(topic.namespace)
        return known[0].of_topic(topic) if known is not None else None

    def owns(self, bundle: BundleName) -> bool:
        """Return whether this broker holds ``bundle``, also while it is being released."""
        return bundle in self._owned and self._proven()

    def is_leaving(self, bundle: BundleName) -> bool:
        """Return whether ``bundle`` is being released."""
        return bundle in self._leaving

    def owned(self) -> list[BundleName]:
        """Return the held bundles, sorted by name."""
        return sorted(self._owned, key=str)

    def _proven(self) -> bool:
        return self._store.session_proven

    # Bundles of namespaces

    async def bundles(self, namespace: NamespaceName) -> Bundles:
        """Return the bundles of a namespace, from the cache unless they changed.

        Raises NoNamespaceError. Cancel-safe.
        """
        known = self._namespaces.get(namespace)
        if known is not None:
            self._namespaces.move_to_end(namespace)
            return known[0]
        path = paths.local_policies(str(namespace))
        self._reading[namespace] = True
        stop = self._store.watch(path, lambda _: self._forget(namespace))
        try:
            bundles = await self._read_bundles(namespace, path)
        except BaseException:
            stop()
            raise
        if not self._reading.pop(namespace, False) or namespace in self._namespaces:
            stop()  # changed during the read, or cached by another caller meanwhile
            return bundles
        self._namespaces[namespace] = (bundles, stop)
        self._trim()
        return bundles

    def _trim(self) -> None:
        """Bound the cache; namespaces with held bundles remain."""
        while len(self._namespaces) > NAMESPACES_KNOWN_MAX + len(self._held):
            oldest = next(name for name in self._namespaces if name not in self._held)
            self._forget(oldest)

    def _forget(self, namespace: NamespaceName) -> None:
        """Drop a namespace whose local policies changed from the cache.

        A namespace with held bundles is read again instead, because only their owner changes their boundaries.
        """
        self._reading.pop(namespace, None)
        if self._tasks.closed:
            return  # an event that arrived during the shutdown
        if namespace in self._held:
            self._tasks.spawn(f"recheck {namespace}", self._recheck(namespace))
            return
        known = self._namespaces.pop(namespace, None)
        if known is not None:
            known[1]()

    async def _recheck(self, namespace: NamespaceName) -> None:
        """Read the boundaries of a namespace with held bundles again; bundles that no longer exist are lost."""
        path = paths.local_policies(str(namespace))
        fresh: Bundles | None = None
        try:
            with suppress(NoNodeError):
                fresh = Bundles.decode(namespace, (await self._store.get(path))[0])
            if fresh is None:
                # Deleted: a new namespace of that name may have the bundles that are held.
                with suppress(NoNamespaceError):
                    fresh = await self._read_bundles(namespace, path)
        except OtherStoreUnavailableError:
            # The watch is of a node in the local store, which is not notified when the other one is back (R2).
            await asyncio.sleep(RETRY_S)
            self._forget(namespace)
            return
        except (StoreUnavailableError, SessionExpiredError):
            return  # after the reconnect all watches are notified, and this runs again
        known = self._namespaces.get(namespace)
        if fresh is not None and known is not None and fresh != known[0]:
            self._namespaces[namespace] = (fresh, known[1])
        present = set(fresh) if fresh is not None else set()
        for bundle in [bundle for bundle in self._splitting if bundle.namespace == namespace]:
            if present.issuperset(self._splitting[bundle]):
                self._adopt(bundle)
        removed = [
            bundle
            for bundle in self.owned()
            if bundle.namespace == namespace and bundle not in present
        ]
        self._lose(removed, "its boundaries are gone")
        if fresh is None:
            self._forget(namespace)
        for bundle in removed:
            await self._clean_up(bundle)

    async def _clean_up(self, bundle: BundleName) -> None:
        """Remove the node of a lost bundle, unless the bundle was acquired again."""
        async with self._lock(bundle):
            if bundle in self._owned:
                return
            # A node that cannot be removed is deleted with the session; no lookup by the new boundaries reads it.
            with suppress(StoreUnavailableError, SessionExpiredError):
                await self._remove_node(bundle)

    async def _read_bundles(self, namespace: NamespaceName, path: str) -> Bundles:
        try:
            value, _ = await self._store.get(path)
            stored = Bundles.decode(namespace, value)
        except NoNodeError:
            stored = None
        try:
            policies = await self._policies(namespace)
        except OtherStoreUnavailableError:
            # A namespace with bundles that are served here is found without its policies.
            if stored is None or namespace not in self._held:
                raise
            return stored
        if stored is not None:
            return stored
        if policies is None:
            raise NoNamespaceError(f"Namespace {namespace} has no bundles")
        try:
            await self._store.create(path, encode_local_policies(policies), make_parents=True)
        except NodeExistsError:
            value, _ = await self._store.get(path)
            return Bundles.decode(namespace, value) or policies
        try:
            # A deletion marks the namespace before it removes this node: either it removes the node that was
            # created here, or this check sees the mark.
            await self._policies(namespace)
        except NoNamespaceError:
            with suppress(NoNodeError, BadVersionError):
                await self._store.delete(path, 0)
            raise
        return policies

    async def _policies(self, namespace: NamespaceName) -> Bundles | None:
        try:
            value, _ = await self._store.get(paths.namespace_policies(str(namespace)))
        except NoNodeError as error:
            if namespace.cluster is not None and await self._store.exists(
                paths.tenant(namespace.tenant)
            ):
                return Bundles(namespace, (0, HASH_TOP))  # legacy names need no policies
            raise NoNamespaceError(f"Namespace {namespace} does not exist") from error
        if decode_json(value, f"policies of {namespace}").get("deleted"):
            raise NoNamespaceError(f"Namespace {namespace} is being deleted")
        return Bundles.decode(namespace, value)

    # Acquiring and releasing

    async def owner(self, bundle: BundleName) -> OwnerRecord | None:
        """Return the record of the broker that holds ``bundle`` now, None without one. Cancel-safe."""
        if self.owns(bundle):
            return self._record
        try:
            value, _ = await self._store.get(_path(bundle))
        except NoNodeError:
            return None
        if value == self._record.encode():
            return None  # left by an earlier process of this broker or for it, or by a claim whose answer was lost
        return OwnerRecord.decode(value)

    async def left_behind(self, bundle: BundleName) -> bool:
        """Return whether a node for ``bundle`` sends clients here: an earlier process of this broker left it, or the
        previous owner named this broker in it.

        Cancel-safe.
        """
        if bundle in self._owned or bundle in self._leaving:
            return False
        try:
            value, _ = await self._store.get(_path(bundle))
        except NoNodeError:
            return False
        return value == self._record.encode()

    async def acquire(self, bundle: BundleName) -> bool:
        """Acquire ``bundle``; return False when another broker holds it.

        Raises StoreUnavailableError when the session is in doubt, or when ``bundle`` is being released or was split; in
        the last case the namespace is dropped from the cache. After cancellation the bundle may have been acquired; the
        next call resolves this.
        """
        async with self._lock(bundle):
            if bundle in self._leaving:
                raise StoreUnavailableError(f"bundle {bundle} is being unloaded")
            if self.owns(bundle):
                return True
            session = self._store.session_id
            if not await claim(self._store, _path(bundle), self._record.encode()):
                return False
            # Checked after the claim, because a split stores the new boundaries before it removes the bundle's node.
            await self._check_present(bundle)
            if session != self._store.session_id or not self._proven():
                raise StoreUnavailableError(f"session changed while taking {bundle}")
            if self._tasks.closed:  # its node is deleted with the session
                raise StoreUnavailableError(f"{bundle} is not taken any more: shutting down")
            if bundle not in self._owned:
                self._hold(bundle)
                self._log.info("bundle taken bundle=%s", bundle)
            return True

    async def _check_present(self, bundle: BundleName) -> None:
        """Raise StoreUnavailableError for a claimed bundle that another broker has split.

        The claim was based on outdated boundaries; the owners of the parts serve the topics.
        """
        if bundle in self._owned or await self._is_stored(bundle):
            return
        await self._remove_node(bundle)
        known = self._namespaces.pop(bundle.namespace, None)
        if known is not None:
            known[1]()
        raise StoreUnavailableError(f"bundle {bundle} is split")

    async def _is_stored(self, bundle: BundleName) -> bool:
        path = paths.local_policies(str(bundle.namespace))
        try:
            stored = Bundles.decode(bundle.namespace, (await self._store.get(path))[0])
        except NoNodeError:
            return True  # the namespace is being deleted, or only its policies have the bundles
        return stored is None or bundle in set(stored)

    async def split(
        self, bundle: BundleName, edges: list[int], bundles_max: int = BUNDLES_MAX
    ) -> list[BundleName]:
        """Split ``bundle``, which this broker holds, at ``edges``; return its parts, which this broker holds then.

        Topics are served throughout. Raises Conflict when the bundle is not held here, another broker holds one of its
        parts, or the namespace would have more than ``bundles_max`` bundles. Raises StoreUnavailableError or
        SessionExpiredError when the outcome is unknown; it is determined in the background, and if the bundle was
        split, its parts are held from then on. Cancellation has the same effect.
        """
        async with self._lock(bundle):
            if not self.owns(bundle) or bundle in self._leaving:
                raise Conflict(f"bundle {bundle} is not served here")
            if bundle in self._splitting:
                raise StoreUnavailableError(f"bundle {bundle} is being split")
            ends = pairwise([bundle.lower, *edges, bundle.upper])
            parts = [BundleName(bundle.namespace, low, high) for low, high in ends]
            self._splitting[bundle] = parts
            try:
                await self._cut(bundle, edges, bundles_max)
            except BaseException:
                # The boundaries may be stored although the answer was lost. No other broker can split the bundle
                # while this one holds the nodes of its parts.
                if not self._tasks.closed:
                    task_name = f"settle {bundle}"
                    work = partial(self._settle, bundle)
                    self._tasks.spawn(task_name, restarting(task_name, work))
                raise
            self._adopt(bundle)
            self._log.info("bundle split bundle=%s parts=%d", bundle, len(parts))
            # No lookup by the new boundaries reads this node. If it cannot be removed, it is deleted with the session.
            with suppress(StoreUnavailableError, SessionExpiredError):
                await self._remove_node(bundle)
            return parts

    async def _cut(self, bundle: BundleName, edges: list[int], bundles_max: int) -> None:
        """Claim the parts, then store the boundaries, so that a reader of these finds an owner for each part."""
        session = self._store.session_id
        for part in self._splitting[bundle]:
            if not await claim(self._store, _path(part), self._record.encode()):
                raise Conflict(f"bundle {part} is held by another broker; try again")
        if session != self._store.session_id or not self.owns(bundle):
            raise StoreUnavailableError(f"session changed while splitting {bundle}")
        path = paths.local_policies(str(bundle.namespace))
        await update(
            self._store, path, lambda value: _split_policies(value, bundle, edges, bundles_max)
        )

    async def _settle(self, bundle: BundleName) -> None:
        """Determine whether a split with unknown outcome happened, until the store answers.

        If it did, the parts are adopted, otherwise their nodes are removed.
        """
        while bundle in self._splitting:
            try:
                if bundle not in self._owned or await self._is_stored(bundle):
                    for part in self._splitting[bundle]:
                        if part not in self._owned:
                            await self._remove_node(part)
                    self._splitting.pop(bundle, None)
                else:
                    await self._recheck(bundle.namespace)
            except (StoreUnavailableError, SessionExpiredError) as error:
                self._log.info("split not settled yet bundle=%s reason=%s", bundle, error)
            if bundle in self._splitting:
                await asyncio.sleep(RETRY_S)

    def _adopt(self, bundle: BundleName) -> None:
        """Hold the parts of ``bundle`` instead of it, once its namespace's boundaries have them. Idempotent."""
        parts = self._splitting.pop(bundle, None)
        if parts is None or bundle not in self._owned:
            return  # already adopted, or lost with the session together with the nodes of its parts
        for part in parts:
            if part not in self._owned:
                self._hold(part)
        self._drop(bundle)
        known = self._namespaces.get(bundle.namespace)
        if known is not None and bundle in set(known[0]):
            edges = {*known[0].edges, *(part.lower for part in parts)}
            self._namespaces[bundle.namespace] = (
                Bundles(bundle.namespace, tuple(sorted(edges))),
                known[1],
            )

    async def release(
        self,
        bundle: BundleName,
        unload: Callable[[BundleName], Any] | None = None,
        *,
        successor: OwnerRecord | None = None,
    ) -> None:
        """Release ``bundle``: stop serving it, close its topics with ``await unload(bundle)``, remove its node
        (O3).

        With a ``successor`` the node remains and names that broker, which alone may replace it (O4); call
        ``forget_successor`` unless the successor has acquired the bundle.

        A bundle that is not held is ignored. Raises StoreUnavailableError or SessionExpiredError when the removal of
        the node is not confirmed: the removal is repeated in the background, the bundle is not served meanwhile, and a
        second call raises StoreUnavailableError. After cancellation the bundle is still held if its topics were not
        closed yet; otherwise the removal continues in the background.
        """
        async with self._lock(bundle):
            if bundle not in self._owned:
                return
            if bundle in self._leaving:
                raise StoreUnavailableError(f"bundle {bundle} is being unloaded")
            self._leaving[bundle] = None
            try:
                if unload is not None:
                    await unload(bundle)
            except BaseException:
                del self._leaving[bundle]
                # A removal of the bundle's node was ignored while the bundle was being released.
                self._on_node(bundle)
                raise
            try:
                if successor is None:
                    await self._remove_node(bundle)
                else:
                    await self._name_successor(bundle, successor)
            except BaseException:
                # The node may be changed although the answer was lost, and another broker may serve the bundle.
                if not self._tasks.closed:
                    task_name = f"give up {bundle}"
                    work = partial(self._give_up, bundle)
                    self._tasks.spawn(task_name, restarting(task_name, work))
                raise
            self._released(bundle)

    async def _give_up(self, bundle: BundleName) -> None:
        """Remove the node of a bundle that is being released, until the store confirms it or the session ends."""
        while bundle in self._owned:
            try:
                await self._remove_node(bundle)
                break
            except (StoreUnavailableError, SessionExpiredError) as error:
                self._log.info("bundle not released yet bundle=%s reason=%s", bundle, error)
            await asyncio.sleep(RETRY_S)
        self._released(bundle)

    async def _name_successor(self, bundle: BundleName, successor: OwnerRecord) -> None:
        """Put the successor's record into the node of a bundle whose topics are closed."""
        try:
            _, stat = await self._store.get(_path(bundle))
            if stat.ephemeral_owner == self._store.session_id:
                await self._store.put(_path(bundle), successor.encode(), stat.version)
        except (NoNodeError, BadVersionError):
            return  # no longer this broker's node

    def forget_successor(self, bundle: BundleName) -> "asyncio.Task[None] | None":
        """Remove the node of a released bundle whose successor may not have acquired it, so that any broker may.

        The returned task continues until the removal is confirmed or the session ends; None during the shutdown, after
        which the node is deleted with the session. A node that another broker has created is not removed.
        """
        if self._tasks.closed:
            return None
        task_name = f"forget successor {bundle}"
        work = partial(self._remove_left, bundle)
        return self._tasks.spawn(task_name, restarting(task_name, work))

    async def _remove_left(self, bundle: BundleName) -> None:
        while True:
            async with self._lock(bundle):
                if bundle in self._owned:
                    return  # acquired here again
                try:
                    await self._remove_node(bundle)
                    return
                except (StoreUnavailableError, SessionExpiredError) as error:
                    self._log.info("successor not forgotten bundle=%s reason=%s", bundle, error)
            await asyncio.sleep(RETRY_S)

    def _released(self, bundle: BundleName) -> None:
        if bundle in self._owned:
            self._drop(bundle)
            self._log.info("bundle released bundle=%s", bundle)
        del self._leaving[bundle]

    def _hold(self, bundle: BundleName) -> None:
        self._owned[bundle] = self._store.watch(_path(bundle), lambda _: self._on_node(bundle))
        namespace = bundle.namespace
        if namespace not in self._held:
            # The cache's watch does not suffice: an event of an earlier change, such as our own creation, ends it.
            path = paths.local_policies(str(namespace))
            self._watched[namespace] = self._store.watch(path, lambda _: self._forget(namespace))
            self._held[namespace] = {}
            if namespace not in self._namespaces:
                self._tasks.spawn(f"recheck {namespace}", self._recheck(namespace))
        self._held[namespace][bundle] = None

    def _drop(self, bundle: BundleName) -> None:
        self._owned.pop(bundle)()
        held = self._held[bundle.namespace]
        del held[bundle]
        if not held:
            del self._held[bundle.namespace]
            self._watched.pop(bundle.namespace)()

    def _lock(self, bundle: BundleName) -> asyncio.Lock:
        lock = self._locks.get(bundle)
        if lock is None:
            lock = self._locks[bundle] = asyncio.Lock()
        return lock

    async def _remove_node(self, bundle: BundleName) -> None:
        try:
            _, stat = await self._store.get(_path(bundle))
            if stat.ephemeral_owner == self._store.session_id:
                await self._store.delete(_path(bundle), stat.version)
        except (NoNodeError, BadVersionError):
            return

    # Losing

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._lose(self.owned(), "the session ended")

    def _on_node(self, bundle: BundleName) -> None:
        """Check whether the owner node is still ours, after a change or after a reconnect that may have hidden one."""
        if bundle in self._owned and not self._tasks.closed:
            self._tasks.spawn(f"check {bundle}", self._check(bundle))

    async def _check(self, bundle: BundleName) -> None:
        try:
            _, stat = await self._store.get(_path(bundle))
            ours = stat.ephemeral_owner == self._store.session_id
        except NoNodeError:
            ours = False
        except (StoreUnavailableError, SessionExpiredError):
            return  # if the session ends, all bundles are lost
        if not ours and bundle not in self._leaving:
            self._lose([bundle], "its node was removed")

    def _lose(self, bundles: list[BundleName], reason: str) -> None:
        lost = [bundle for bundle in bundles if bundle in self._owned]
        for bundle in lost:
            self._drop(bundle)
            self._log.warning("bundle lost bundle=%s reason=%s", bundle, reason.replace(" ", "-"))
        if lost:
            self._on_lost(lost)

    async def close(self) -> None:
        """Stop watching and own no bundle from now on; the nodes of held bundles are deleted with the session.

        ``on_lost`` is not called for these bundles.
        """
        self._stop_listening()
        for bundle in self.owned():
            self._drop(bundle)
        for _, stop in self._namespaces.values():
            stop()
        await self._tasks.close()


def _split_policies(value: bytes, bundle: BundleName, edges: list[int], bundles_max: int) -> bytes:
    """Return local policies in which ``bundle`` is split at ``edges``.

    Raises Conflict when they lack the bundle, or would have more than ``bundles_max`` bundles.
    """
    stored = Bundles.decode(bundle.namespace, value)
    if stored is None or bundle not in set(stored):
        raise Conflict(f"bundle {bundle} was split meanwhile")
    document = decode_json(value, f"local policies of {bundle.namespace}")
    cut = Bundles(bundle.namespace, tuple(sorted({*stored.edges, *edges})))
    if len(cut) > bundles_max:
        raise Conflict(f"{bundle.namespace} would have {len(cut)} bundles, at most {bundles_max}")
    return encode_json({**document, "bundles": cut.document})


def _path(bundle: BundleName) -> str:
    return paths.bundle_owner(str(bundle.namespace), bundle.range)
