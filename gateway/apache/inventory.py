"""Reading of what exists in an Apache Pulsar cluster: clusters, tenants, namespaces, topics, brokers, bookies.

One round after the other reads everything by GET requests, at most ``REQUESTS_PER_S``, and puts it into the mirror. A
round takes at least ``ROUND_S``. A namespace costs three requests, so that 100 namespaces are read in 15 s.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from engine.base.errors import MagnetarError, NotFound, NotReady, Refusal
from engine.base.names import DOMAINS, PERSISTENT, TopicName, encode_name, split_partition
from engine.metadata import paths
from engine.metadata.records import encode_json
from gateway.apache.mirror import MirrorStore
from gateway.apache.rest import ApacheRest, namespace_path, part, topic_path
from gateway.services.bookies import LISTED
from gateway.services.clock import now_ms
from gateway.services.health.checks import UnwellError

log = logging.getLogger(__name__)

ROUND_S = 20.0
REQUESTS_PER_S = 20.0
FIRST_REQUESTS_PER_S = 100.0
"""The same in the first round, which all callers wait for."""
RETRY_S = 2.0
COUNTED_S = 60.0
"""Time between two counts of a broker's statistics, ``statsUpdateFrequencyInSecs``, unless its settings state it."""


class Inventory:
    """The rounds, for one event loop; ``run`` reads until it is cancelled."""

    def __init__(self, rest: ApacheRest, store: MirrorStore) -> None:
        self.known_ms = 0
        """Begin of the last complete round, ms; 0: none yet."""
        self.error = ""
        """The reason why the last round failed; empty: it did not."""
        self.counted_s = COUNTED_S
        self._rest = rest
        self._store = store
        self._next_at = 0.0
        self._services: dict[str, str] = {}
        """Addresses of the brokers for clients, by id."""
        self._owned: dict[str, dict[str, bytes]] = {}
        """Owned bundles by broker."""
        self._stale: dict[str, None] = {}
        """Namespaces that were changed here, which are read before others."""
        self._changed = asyncio.Event()
        self._first = asyncio.Event()

    async def first(self) -> None:
        """Wait for the end of the first round. Cancel-safe."""
        await self._first.wait()

    def renew(self, namespace: str) -> None:
        """Have a namespace read at once, because it was changed through this console."""
        self._stale[namespace] = None
        self._changed.set()

    async def check(self) -> int:
        """Return until when the mirror is known, ms. Raises UnwellError while the cluster does not answer."""
        if self.error:
            raise UnwellError(f"({self._rest.cluster.url}) {self.error}")
        if not self.known_ms:
            raise UnwellError(f"({self._rest.cluster.url}) is being read", slow=True)
        return self.known_ms

    async def run(self) -> None:
        """Read round after round. An error ends the round, and what was known stays."""
        try:
            while True:
                began, at = time.monotonic(), now_ms()
                try:
                    await self._round()
                    self.known_ms, self.error = at, ""
                    self._first.set()
                    pause_s = ROUND_S - (time.monotonic() - began)
                except (MagnetarError, OSError, TimeoutError) as error:
                    if not self.error:
                        log.warning(
                            "cluster is not read cluster=%s error=%s",
                            self._rest.cluster.name,
                            error,
                        )
                    self.error = f"is not read: {error}"
                    pause_s = RETRY_S
                # An answer in an unknown form must not end the loop.
                except Exception:
                    log.exception(
                        "cluster answers in an unknown form cluster=%s", self._rest.cluster.name
                    )
                    self.error = "answers in an unknown form; see the gateway's log"
                    pause_s = ROUND_S
                await self._pause(max(pause_s, RETRY_S))
        finally:
            self._rest.close()

    async def _pause(self, pause_s: float) -> None:
        """Wait for the next round; meanwhile read the namespaces that are changed here."""
        try:
            async with asyncio.timeout(pause_s):
                while True:
                    await self._changed.wait()
                    await self._read_stale()
        except TimeoutError:
            return
        except (MagnetarError, OSError) as error:
            log.debug(
                "changed namespace not read cluster=%s error=%s", self._rest.cluster.name, error
            )

    async def _read_stale(self) -> None:
        self._changed.clear()
        while self._stale:
            namespace = next(iter(self._stale))
            del self._stale[namespace]
            await self.read_namespace(namespace)

    async def _round(self) -> None:
        await self.read_brokers()
        await self._read_clusters()
        tenants: list[str] = await self._get("/admin/v2/tenants")
        namespaces: list[str] = []
        for tenant in tenants:
            namespaces += await self.read_tenant(tenant)
        self._store.keep_children(paths.POLICIES, tenants)
        for namespace in namespaces:
            await self._read_stale()
            await self.read_namespace(namespace)
        for tree in (paths.MANAGED_LEDGERS, paths.PARTITIONED_TOPICS):
            self._store.keep_children(tree, tenants)
        await self._read_owners()
        await self._read_bookies()

    async def _get(self, path: str, *, at: str = "") -> Any:
        """Return an answer, within REQUESTS_PER_S."""
        now = time.monotonic()
        begin = max(self._next_at, now)
        self._next_at = begin + 1 / (REQUESTS_PER_S if self.known_ms else FIRST_REQUESTS_PER_S)
        await asyncio.sleep(begin - now)
        return await self._rest.get(path, at=at)

    async def read_brokers(self) -> None:
        """Read the registered brokers. Raises NotReady where the cluster has another name than is stated."""
        rest, name = self._rest, self._rest.cluster.own_name
        ids: list[str] = await self._get("/admin/v2/brokers")
        names: list[str] = await self._get("/admin/v2/clusters")
        if name not in names:
            others = [str(other) for other in names if other != "global"]
            own = others[0] if len(others) == 1 else "NAME"
            raise NotReady(
                f"it has the clusters {', '.join(others)}, not {name}: state its own name, by"
                f" --remote-name {rest.cluster.name}={own} or by remote in apache_clusters"
            )
        rest.hosts = frozenset(ids)
        # The address that is given reaches a single broker, also where its own name cannot be reached.
        urls = {id: rest.cluster.url if len(ids) == 1 else rest.broker_url(id) for id in ids}
        for gone in self._services.keys() - urls.keys():
            del self._services[gone]
        for id, url in urls.items():
            if not self._services.get(id):
                self._services[id] = await self._service_url(id, url)
        self._store.replace_children(
            paths.LOADBALANCE_BROKERS,
            {
                id: encode_json({"adminRpcUrl": url, "pulsarServiceUrl": self._services[id]})
                for id, url in urls.items()
            },
        )

    async def _service_url(self, id: str, url: str) -> str:
        """Return the address of a broker for clients by its settings, which only a superuser may read; empty where that
        is not known. They state how often brokers count, too."""
        try:
            settings = await self._get("/admin/v2/brokers/configuration/runtime", at=url)
        except (Refusal, OSError) as error:
            log.info("settings of a broker are not read broker=%s error=%s", id, error)
            return ""
        counted = str(settings.get("statsUpdateFrequencyInSecs") or "")
        self.counted_s = float(counted) if counted.isdigit() else COUNTED_S
        host = id.rpartition(":")[0]
        for scheme, key in (
            ("pulsar+ssl", "brokerServicePortTls"),
            ("pulsar", "brokerServicePort"),
        ):
            port = str(settings.get(key) or "").removeprefix("Optional[").removesuffix("]")
            if port.isdigit():
                return f"{scheme}://{host}:{port}"
        return ""

    async def _read_owners(self) -> None:
        """Read which broker owns which bundle. A broker that does not answer owns what it did."""
        name = part(self._rest.cluster.own_name)
        for id, service in self._services.items():
            try:
                path = f"/admin/v2/brokers/{name}/{part(id)}/ownedNamespaces"
                owned = await self._get(path)
            except Refusal as error:
                log.debug("owned bundles are not read broker=%s error=%s", id, error)
                continue
            owner = encode_json({"nativeUrl": service, "httpUrl": self._rest.broker_url(id)})
            bundles = dict.fromkeys((bundle for bundle in owned if bundle.count("/") == 2), owner)
            for bundle in self._owned.get(id, {}).keys() - bundles.keys():
                self._store.remove(f"{paths.NAMESPACE}/{bundle}")
            for bundle, value in bundles.items():
                self._store.set(f"{paths.NAMESPACE}/{bundle}", value)
            self._owned[id] = bundles
        for gone in self._owned.keys() - self._services.keys():
            for bundle in self._owned.pop(gone):
                self._store.remove(f"{paths.NAMESPACE}/{bundle}")

    async def _read_clusters(self) -> None:
        names = [name for name in await self._get("/admin/v2/clusters") if name != "global"]
        data = {name: await self._get(f"/admin/v2/clusters/{part(name)}") for name in names}
        self._store.replace_children(
            paths.CLUSTERS, {name: encode_json(document) for name, document in data.items()}
        )

    async def read_tenant(self, tenant: str) -> list[str]:
        """Read a tenant and the names of its namespaces, and return these."""
        info = await self._get(f"/admin/v2/tenants/{part(tenant)}")
        names: list[str] = await self._get(namespace_path(tenant))
        self._store.set(paths.tenant(tenant), encode_json(info))
        local = [name.partition("/")[2] for name in names]
        for tree in (paths.POLICIES, paths.MANAGED_LEDGERS, paths.PARTITIONED_TOPICS):
            self._store.keep_children(f"{tree}/{tenant}", local)
        return names

    async def read_namespace(self, namespace: str) -> None:
        """Read the policies and topics of a namespace. One that was deleted meanwhile is left to the next round."""
        try:
            policies = await self._get(namespace_path(namespace))
            topics: list[str] = await self._get(
                f"/admin/v2/namespaces/{_segments(namespace)}/topics?mode=ALL"
            )
            partitioned: list[str] = []
            for domain in DOMAINS:
                partitioned += await self._get(
                    f"/admin/v2/{domain}/{_segments(namespace)}/partitioned"
                )
        except NotFound:
            return
        self._store.set(paths.namespace_policies(namespace), encode_json(policies))
        counts = await self._counts(namespace, topics, partitioned)
        for domain in DOMAINS:
            below = f"{domain}://{namespace}/"
            self._store.replace_children(
                paths.partitioned_topics(namespace, domain),
                {
                    encode_name(name.removeprefix(below)): encode_json({"partitions": count})
                    for name, count in counts.items()
                    if name.startswith(below)
                },
            )
        below = f"{PERSISTENT}://{namespace}/"
        ledgers = [name.removeprefix(below) for name in topics if name.startswith(below)]
        self._store.replace_children(
            paths.managed_ledgers(namespace), {encode_name(name): b"" for name in ledgers}
        )

    async def _counts(
        self, namespace: str, topics: Sequence[str], partitioned: Sequence[str]
    ) -> dict[str, int]:
        """Return the numbers of partitions: by the partitions that exist, else the record."""
        counts = dict.fromkeys(partitioned, 0)
        for name in topics:
            base, index = split_partition(name)
            if base in counts:
                counts[base] = max(counts[base], index + 1)
        for name, count in list(counts.items()):
            if not count:
                record = await self._get(topic_path(TopicName.parse(name), "partitions"))
                counts[name] = int(record.get("partitions", 0))
        return counts

    async def _read_bookies(self) -> None:
        """Read the bookies that are known; only a superuser may read them."""
        try:
            answer = await self._get("/admin/v2/bookies/all")
        except Refusal as error:
            log.debug("bookies are not read cluster=%s error=%s", self._rest.cluster.name, error)
            return
        names = [str(item["bookieId"]) for item in answer.get("bookies", [])]
        self._store.replace_children(LISTED, dict.fromkeys(names, b""))


def _segments(namespace: str) -> str:
    return "/".join(map(part, namespace.split("/")))
