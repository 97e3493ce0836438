"""The brokers of an Apache Pulsar cluster as services use them: each operation by the REST calls for it.

Closed by default: an operation without a handler here is refused with its name, and nothing is requested.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

from engine.admin.api.rows import LINK_ROWS, SUBSCRIPTION_ROWS, TOPIC_ROWS
from engine.admin.client import BrokerAddress
from engine.base.errors import Unsupported
from engine.base.tasks import TaskScope
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.metadata.store import NoNodeError
from engine.rpc.operation import A, Operation, R
from gateway.apache.inventory import Inventory
from gateway.apache.mirror import MirrorStore
from gateway.apache.reports import BrokerReports
from gateway.apache.rest import ApacheRest


class Target(NamedTuple):
    """The cluster that a handler works on. ``at``: the URL of the broker that was named, empty where any will do."""

    rest: ApacheRest
    store: MirrorStore
    at: str


Handler = Callable[[Target, Any], Awaitable[Any]]
Handlers = Mapping[str, Handler]
"""Handlers by the operation's name."""

_FEEDS = {
    TOPIC_ROWS.name: "topics",
    SUBSCRIPTION_ROWS.name: "subscriptions",
    LINK_ROWS.name: "links",
}


class ApacheBrokers:
    """The brokers of one cluster, for one event loop; implements ``Brokers``."""

    def __init__(
        self,
        rest: ApacheRest,
        store: MirrorStore,
        inventory: Inventory,
        handlers: Handlers,
        tasks: TaskScope,
    ) -> None:
        self._rest = rest
        self._store = store
        self._inventory = inventory
        self._handlers = handlers
        self._tasks = tasks
        self._reports: dict[str, BrokerReports] = {}

    async def brokers(self) -> list[BrokerAddress]:
        """Return the registered brokers by the last round of the inventory."""
        try:
            ids = await self._store.children(paths.LOADBALANCE_BROKERS)
        except NoNodeError:
            return []
        brokers = []
        for broker_id in ids:
            value, _ = await self._store.get(paths.broker(broker_id))
            record = decode_json(value, broker_id)
            url, service = str(record["adminRpcUrl"]), str(record["pulsarServiceUrl"])
            brokers.append(BrokerAddress(broker_id, url, service))
        for gone in self._reports.keys() - {broker.rpc_url for broker in brokers}:
            del self._reports[gone]
        return brokers

    async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
        """Run an operation: brokers redirect to the owner. Raises Unsupported without a handler."""
        return await self._handle("", operation, args)

    async def call_on(
        self, broker: BrokerAddress, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R:
        """Run an operation at a broker. Raises Unsupported without a handler."""
        feed = _FEEDS.get(operation.name)
        if feed is None:
            return await self._handle(broker.rpc_url, operation, args)
        reports = self._reports.get(broker.rpc_url)
        if reports is None:
            counted = self._inventory
            reports = self._reports[broker.rpc_url] = BrokerReports(
                self._rest, broker.rpc_url, lambda: counted.counted_s, self._tasks
            )
        return cast(R, await reports.answer(getattr(reports, feed), cast(Any, args)))

    async def _handle(self, at: str, operation: Operation[A, R], args: A) -> R:
        handler = self._handlers.get(operation.name)
        if handler is None:
            raise Unsupported(
                f"{self._rest.cluster.name} is a cluster of Apache Pulsar, at which this console cannot do this "
                f"({operation.name.replace('_', ' ')})"
            )
        try:
            return cast(R, await handler(Target(self._rest, self._store, at), args))
        finally:
            topic = getattr(args, "topic", None)
            namespace = topic.namespace if topic is not None else getattr(args, "namespace", None)
            if not operation.reads and namespace is not None:
                self._inventory.renew(str(namespace))

    def close(self) -> None:
        self._rest.close()
