"""Ownership of bundles: who serves which topics, held as ephemeral nodes of this broker's session.

``/namespace/<tenant>/<ns>/<range>`` holds the owner's addresses (Apache Pulsar's layout). A broker owns a bundle from
the moment its node is created until it is released, its session ends, or someone removes the node. It stops
acknowledging before the session can end (``MetadataStore.session_proven``), so two owners never acknowledge at once;
what an old owner still sends to bookies is refused by the fence the next owner puts on each ledger.

Its owner can split a bundle: it takes the nodes of the parts, stores the new boundaries by compare-and-set, holds the
parts instead of the bundle in one step, and removes the bundle's node. A broker that takes a bundle by boundaries of
before finds, once it has the node, that there is no such bundle any more.
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
from engine.ownership.registration import BrokerRecord, claim
from engine.tenancy.bundles import BUNDLES_MAX, Bundles, encode_local_policies

NAMESPACES_KNOWN_MAX = 10_000
RETRY_S = 0.5
"""Between attempts to remove the node of a bundle that was given up."""


class NoNamespaceError(MagnetarError):
    """The namespace does not exist, or has no bundles."""


class OwnerRecord(NamedTuple):
    """Addresses of a bundle's owner."""

    native_url: str
    http_url: str
    native_url_tls: str = ""
    """Empty: it does not listen for TLS."""

    @classmethod
    def of(cls, broker: BrokerRecord) -> "OwnerRecord":
        """Of a bundle that this broker owns."""
        return cls(broker.service_url, broker.web_url, broker.service_url_tls)

    def encode(self) -> bytes:
        """Stored form, in Pulsar's key order."""
        value = {
            "nativeUrl": self.native_url,
            **({"nativeUrlTls": self.native_url_tls} if self.native_url_tls else {}),
            "httpUrl": self.http_url,
            "disabled": False,
            "advertisedListeners": {},
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "OwnerRecord":
        """Raises ValueError when it is no JSON object."""
        found = decode_json(value or b"null", "bundle owner")
        urls = (str(found.get(key) or "") for key in ("nativeUrl", "httpUrl", "nativeUrlTls"))
        return cls(*urls)


class BundleOwnership:
    """The bundles of one broker. Made inside a running loop.

    ``on_lost(bundles)`` is called synchronously as soon as bundles are no longer ours without having been released:
    their topics must stop acknowledging now and be closed.
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
        self._owned: dict[BundleName, Callable[[], None]] = {}  # → how to stop its watch
        self._held: dict[NamespaceName, dict[BundleName, None]] = {}  # the same by namespace
        self._watched: dict[NamespaceName, Callable[[], None]] = {}  # its namespaces → how to stop
        self._leaving: dict[BundleName, None] = {}
        self._splitting: dict[BundleName, list[BundleName]] = {}  # → its parts, claimed already
        self._locks: dict[BundleName, asyncio.Lock] = {}
        self._namespaces: OrderedDict[NamespaceName, tuple[Bundles, Callable[[], None]]] = (
            OrderedDict()
        )
        self._reading: dict[NamespaceName, bool] = {}  # gone when it changed since the read began
        self._tasks = TaskScope("ownership")
        self._stop_listening = store.on_state(self._on_state)
        self._log = bound(__name__, url=record.native_url)

    # What is known at once

    def serves(self, topic: TopicName) -> bool:
        """Whether this broker owns the topic's bundle and may acknowledge for it at this moment."""
        bundle = self._held_bundle(topic)
        return bundle is not None and bundle not in self._leaving and self._proven()

    def _held_bundle(self, topic: TopicName) -> BundleName | None:
        for bundle in self._held.get(topic.namespace, ()):
            if bundle.holds(topic.bundle_hash):
                return bundle
        return None

    def known_bundle(self, topic: TopicName) -> BundleName | None:
        """The topic's bundle, when it is held here or its namespace's boundaries are known."""
        held = self._held_bundle(topic)
        if held is not None:
            return held
        known = self._namespaces.get(topic.namespace)
        return known[0].of_topic(topic) if known is not None else None

    def owns(self, bundle: BundleName) -> bool:
        """Whether this broker holds ``bundle``, being released or not."""
        return bundle in self._owned and self._proven()

    def is_leaving(self, bundle: BundleName) -> bool:
        """Whether ``bundle`` is being released."""
        return bundle in self._leaving

    def owned(self) -> list[BundleName]:
        """Bundles held, sorted by name."""
        return sorted(self._owned, key=str)

    def _proven(self) -> bool:
        return self._store.session_proven

    # Bundles of namespaces

    async def bundles(self, namespace: NamespaceName) -> Bundles:
        """Bundles of a namespace, from cache while nothing changed. Raises NoNamespaceError. Cancel-safe."""
        known = self._namespaces.get(namespace)
        if known is not None:
            self._namespaces.move_to_end(namespace)
            return known[0]
        path = paths.local_policies(str(namespace))
        self._reading[namespace] = True
        stop = self._store.watch(path, lambda _: self._forget(namespace))
        try:
            found = await self._read_bundles(namespace, path)
        except BaseException:
            stop()
            raise
        if not self._reading.pop(namespace, False) or namespace in self._namespaces:
            stop()  # changed while being read, or another caller was quicker
            return found
        self._namespaces[namespace] = (found, stop)
        self._trim()
        return found

    def _trim(self) -> None:
        """Bound the cache, keeping namespaces of which bundles are held here."""
        while len(self._namespaces) > NAMESPACES_KNOWN_MAX + len(self._held):
            oldest = next(name for name in self._namespaces if name not in self._held)
            self._forget(oldest)

    def _forget(self, namespace: NamespaceName) -> None:
        """Local policies changed. Held bundles stay cached: their boundaries change only when we split them."""
        self._reading.pop(namespace, None)
        if self._tasks.closed:
            return  # word that came while we end
        if namespace in self._held:
            self._tasks.spawn(f"recheck {namespace}", self._recheck(namespace))
            return
        known = self._namespaces.pop(namespace, None)
        if known is not None:
            known[1]()

    async def _recheck(self, namespace: NamespaceName) -> None:
        """Take up new boundaries of a namespace we serve; bundles that are none any more are lost."""
        path = paths.local_policies(str(namespace))
        fresh: Bundles | None = None
        try:
            with suppress(NoNodeError):
                fresh = Bundles.decode(namespace, (await self._store.get(path))[0])
            if fresh is None:  # deleted; made anew by now its bundles may be those that are held
                with suppress(NoNamespaceError):
                    fresh = await self._read_bundles(namespace, path)
        except (StoreUnavailableError, SessionExpiredError):
            return  # watches are told of every change they may have missed once the store is back
        known = self._namespaces.get(namespace)
        if fresh is not None and known is not None and fresh != known[0]:
            self._namespaces[namespace] = (fresh, known[1])
        present = set(fresh) if fresh is not None else set()
        for bundle in [one for one in self._splitting if one.namespace == namespace]:
            if present.issuperset(self._splitting[bundle]):
                self._adopt(bundle)
        gone = [
            bundle
            for bundle in self.owned()
            if bundle.namespace == namespace and bundle not in present
        ]
        self._lose(gone, "its boundaries are gone")
        if fresh is None:
            self._forget(namespace)
        for bundle in gone:
            await self._clean_up(bundle)

    async def _clean_up(self, bundle: BundleName) -> None:
        """Remove the node of a bundle that was lost, unless it was taken again."""
        async with self._lock(bundle):
            if bundle in self._owned:
                return
            # A node that cannot be removed goes with the session; nobody finds it under the new boundaries.
            with suppress(StoreUnavailableError, SessionExpiredError):
                await self._remove_node(bundle)

    async def _read_bundles(self, namespace: NamespaceName, path: str) -> Bundles:
        try:
            value, _ = await self._store.get(path)
            found = Bundles.decode(namespace, value)
        except NoNodeError:
            found = None
        policies = await self._policies(namespace)
        if found is not None:
            return found
        if policies is None:
            raise NoNamespaceError(f"Namespace {namespace} has no bundles")
        try:
            await self._store.create(path, encode_local_policies(policies), make_parents=True)
        except NodeExistsError:
            value, _ = await self._store.get(path)
            return Bundles.decode(namespace, value) or policies
        try:
            # Whoever deletes the namespace marks it before he removes this node: one of us sees the other.
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

    # Taking and giving up

    async def owner(self, bundle: BundleName) -> OwnerRecord | None:
        """Who holds ``bundle`` now; None when nobody does. Cancel-safe."""
        if self.owns(bundle):
            return self._record
        try:
            value, _ = await self._store.get(_path(bundle))
        except NoNodeError:
            return None
        if value == self._record.encode():
            return None  # left by an earlier life of this broker, or by an attempt whose answer was lost
        return OwnerRecord.decode(value)

    async def left_behind(self, bundle: BundleName) -> bool:
        """Whether an earlier life of this broker left its node on ``bundle``: it sends clients here. Cancel-safe."""
        if bundle in self._owned or bundle in self._leaving:
            return False
        try:
            value, _ = await self._store.get(_path(bundle))
        except NoNodeError:
            return False
        return value == self._record.encode()

    async def acquire(self, bundle: BundleName) -> bool:
        """Take ``bundle``; False when another broker holds it. Raises StoreUnavailableError when the session is in
        doubt, ``bundle`` is being released, or is none any more: what was known of its namespace is forgotten then.
        Cancelled: it may have been taken; the next call finds out."""
        async with self._lock(bundle):
            if bundle in self._leaving:
                raise StoreUnavailableError(f"bundle {bundle} is being unloaded")
            if self.owns(bundle):
                return True
            session = self._store.session_id
            if not await claim(self._store, _path(bundle), self._record.encode()):
                return False
            await self._check_present(bundle)
            if session != self._store.session_id or not self._proven():
                raise StoreUnavailableError(f"session changed while taking {bundle}")
            if self._tasks.closed:  # its node goes with the session
                raise StoreUnavailableError(f"{bundle} is not taken any more: shutting down")
            if bundle not in self._owned:
                self._hold(bundle)
                self._log.info("bundle taken bundle=%s", bundle)
            return True

    async def _check_present(self, bundle: BundleName) -> None:
        """Raises StoreUnavailableError for a claimed bundle that was split by another broker before we had it: we had
        not heard of it yet, and whoever owns the parts serves its topics."""
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
            return True  # a namespace that is going, or has its bundles in its policies alone
        return stored is None or bundle in set(stored)

    async def split(self, bundle: BundleName, edges: list[int]) -> list[BundleName]:
        """Cut ``bundle``, which is held here, at ``edges``; its parts, which are held here from then on. Topics are
        served all the while. Raises Conflict when it is not held here (any more), or a part of it by another broker;
        StoreUnavailableError or SessionExpiredError when the store did not say what became of it: if it was cut
        nevertheless, its parts are held as soon as that is known. Cancelled: the same."""
        async with self._lock(bundle):
            if not self.owns(bundle) or bundle in self._leaving:
                raise Conflict(f"bundle {bundle} is not served here")
            if bundle in self._splitting:
                raise StoreUnavailableError(f"bundle {bundle} is being split")
            ends = pairwise([bundle.lower, *edges, bundle.upper])
            parts = [BundleName(bundle.namespace, low, high) for low, high in ends]
            self._splitting[bundle] = parts
            try:
                await self._cut(bundle, edges)
            except BaseException:
                # Perhaps only an answer was lost; and nobody else can split it while we have its parts.
                if not self._tasks.closed:
                    what = f"settle {bundle}"
                    self._tasks.spawn(what, restarting(what, partial(self._settle, bundle)))
                raise
            self._adopt(bundle)
            self._log.info("bundle split bundle=%s parts=%d", bundle, len(parts))
            # Nobody who knows the new boundaries looks for its node: without the store it goes with the session.
            with suppress(StoreUnavailableError, SessionExpiredError):
                await self._remove_node(bundle)
            return parts

    async def _cut(self, bundle: BundleName, edges: list[int]) -> None:
        """Take the parts, then store the boundaries: whoever sees these finds an owner for each part."""
        session = self._store.session_id
        for part in self._splitting[bundle]:
            if not await claim(self._store, _path(part), self._record.encode()):
                raise Conflict(f"bundle {part} is held by another broker; try again")
        if session != self._store.session_id or not self.owns(bundle):
            raise StoreUnavailableError(f"session changed while splitting {bundle}")
        path = paths.local_policies(str(bundle.namespace))
        await update(self._store, path, lambda value: _with_edges(value, bundle, edges))

    async def _settle(self, bundle: BundleName) -> None:
        """After a split of which it is not known whether it happened: find out, however long the store takes. If it did
        not, its parts are given back."""
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
        """Its namespace's boundaries have its parts: they are held from this moment on, it is not. Safe to repeat."""
        parts = self._splitting.pop(bundle, None)
        if parts is None or bundle not in self._owned:
            return  # done, or lost with the session, as the nodes of its parts
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
        self, bundle: BundleName, unload: Callable[[BundleName], Any] | None = None
    ) -> None:
        """Give ``bundle`` up: from now on it is not served, ``await unload(bundle)`` closes its topics, then its node
        goes. Nothing when it is not held. Raises StoreUnavailableError or SessionExpiredError when the store did not
        say that the node is gone: it is not served until that is known, which goes on by itself; meanwhile a second
        call raises StoreUnavailableError. Cancelled: before the topics are closed it is still held, after that the
        same goes on."""
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
                self._on_node(bundle)  # what became of its node meanwhile was not acted upon
                raise
            try:
                await self._remove_node(bundle)
            except BaseException:
                # Perhaps only the answer was lost, and another broker serves it already.
                if not self._tasks.closed:
                    what = f"give up {bundle}"
                    self._tasks.spawn(what, restarting(what, partial(self._give_up, bundle)))
                raise
            self._released(bundle)

    async def _give_up(self, bundle: BundleName) -> None:
        """Remove the node of a bundle that is leaving, however long the store takes; or the session ends."""
        while bundle in self._owned:
            try:
                await self._remove_node(bundle)
                break
            except (StoreUnavailableError, SessionExpiredError) as error:
                self._log.info("bundle not released yet bundle=%s reason=%s", bundle, error)
            await asyncio.sleep(RETRY_S)
        self._released(bundle)

    def _released(self, bundle: BundleName) -> None:
        if bundle in self._owned:
            self._drop(bundle)
            self._log.info("bundle released bundle=%s", bundle)
        del self._leaving[bundle]

    def _hold(self, bundle: BundleName) -> None:
        self._owned[bundle] = self._store.watch(_path(bundle), lambda _: self._on_node(bundle))
        namespace = bundle.namespace
        if namespace not in self._held:
            # Not the cache's watch: word of an earlier change, our own creation included, ends that one.
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
        """The owner node changed, or a reconnect may have hidden a change: see whether it is still ours."""
        if bundle in self._owned and not self._tasks.closed:
            self._tasks.spawn(f"check {bundle}", self._check(bundle))

    async def _check(self, bundle: BundleName) -> None:
        try:
            _, stat = await self._store.get(_path(bundle))
            ours = stat.ephemeral_owner == self._store.session_id
        except NoNodeError:
            ours = False
        except (StoreUnavailableError, SessionExpiredError):
            return  # the session decides
        if not ours and bundle not in self._leaving:
            self._lose([bundle], "its node was removed")

    def _lose(self, bundles: list[BundleName], why: str) -> None:
        lost = [bundle for bundle in bundles if bundle in self._owned]
        for bundle in lost:
            self._drop(bundle)
            self._log.warning("bundle lost bundle=%s why=%s", bundle, why.replace(" ", "-"))
        if lost:
            self._on_lost(lost)

    async def close(self) -> None:
        """Stop watching, and own nothing from now on: nodes of bundles still held go with the session, unheard here."""
        self._stop_listening()
        for bundle in self.owned():
            self._drop(bundle)
        for _, stop in self._namespaces.values():
            stop()
        await self._tasks.close()


def _with_edges(value: bytes, bundle: BundleName, edges: list[int]) -> bytes:
    """Local policies with ``bundle`` cut at ``edges``. Raises Conflict when it is none of theirs."""
    stored = Bundles.decode(bundle.namespace, value)
    if stored is None or bundle not in set(stored):
        raise Conflict(f"bundle {bundle} was split meanwhile")
    document = decode_json(value, f"local policies of {bundle.namespace}")
    cut = Bundles(bundle.namespace, tuple(sorted({*stored.edges, *edges})))
    if len(cut) > BUNDLES_MAX:
        raise Conflict(f"{bundle.namespace} would have {len(cut)} bundles, at most {BUNDLES_MAX}")
    return encode_json({**document, "bundles": cut.document})


def _path(bundle: BundleName) -> str:
    return paths.bundle_owner(str(bundle.namespace), bundle.range)
