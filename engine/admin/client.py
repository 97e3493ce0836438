"""Reach the broker that owns a topic over its private HTTP port. Used by the gateway; one client per event loop."""

import asyncio
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.admin import api
from engine.auth.internal import TOKEN_HEADER
from engine.base.errors import AdminError
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

HOPS_MAX = 5
"""Redirects followed for one call while ownership moves."""
KNOWN_OWNERS_MAX = 10_000
ANSWER_BYTES_MAX = 64 << 20
UNREACHABLE_REASON = "No broker is available"


class BrokerAddress(NamedTuple):
    """A registered broker. ``id`` is ``host:http-port``, ``rpc_url`` its private HTTP address, no slash at the end."""

    id: str
    rpc_url: str
    service_url: str


class AdminClient:
    """Calls administrative operations on the broker that owns their topic.

    Every call raises AdminError with the status and reason the broker gave, 503 when no broker answers within
    ``timeout_s``. Not cancel-safe for changes: a cancelled or timed-out change may or may not have happened.
    """

    def __init__(self, store: MetadataStore, token: str, *, timeout_s: float = 30.0) -> None:
        self._store = store
        self._token = token
        self._timeout_s = timeout_s
        self._session: ClientSession | None = None
        self._owners: OrderedDict[str, str] = (
            OrderedDict()
        )  # topic or bundle → rpc_url; only a hint

    async def close(self) -> None:
        """Close kept connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def brokers(self) -> list[BrokerAddress]:
        """Registered brokers, sorted by id."""
        try:
            ids = await self._store.children(paths.LOADBALANCE_BROKERS)
        except NoNodeError:
            return []
        found = await asyncio.gather(*(self._broker(broker_id) for broker_id in ids))
        return [broker for broker in found if broker is not None]

    async def _broker(self, broker_id: str) -> BrokerAddress | None:
        try:
            value, _ = await self._store.get(paths.broker(broker_id))
        except NoNodeError:
            return None
        record = json.loads(value)
        url = record.get("adminRpcUrl") or record.get("webServiceUrl") or ""
        return BrokerAddress(broker_id, url.rstrip("/"), record.get("pulsarServiceUrl", ""))

    async def call(self, operation: str, args: Any, *, topic: str | None = None) -> Any:
        """Run ``operation`` with its arguments on the owner of ``topic`` (default: of the arguments' own topic).

        Operations on the broker itself go to ``call_on``. Returns the decoded result.
        """
        key = topic if topic is not None else _owner_key(args)
        hint = self._owners.get(key)
        urls = [hint] if hint is not None else []
        urls += [broker.rpc_url for broker in await self.brokers() if broker.rpc_url != hint]
        for url in urls:
            try:
                return await self._follow(url, key, operation, args)
            except _NotReachedError:
                self._owners.pop(key, None)
        raise AdminError(503, UNREACHABLE_REASON)

    async def call_on(self, broker: BrokerAddress, operation: str, args: Any) -> Any:
        """Run ``operation`` on this very broker, for operations about the broker itself."""
        try:
            status, answer = await self._post(broker.rpc_url, operation, args)
        except _NotReachedError as error:
            raise AdminError(503, f"Broker {broker.id} does not answer") from error
        return _result(status, answer)

    async def _follow(self, url: str, key: str, operation: str, args: Any) -> Any:
        for _ in range(HOPS_MAX):
            status, answer = await self._post(url, operation, args)
            if status != 307:
                self._remember(key, url)
                return _result(status, answer)
            url = str(answer["location"])
        raise AdminError(503, f"Ownership of {key} keeps moving")

    def _remember(self, key: str, url: str) -> None:
        self._owners[key] = url
        self._owners.move_to_end(key)
        if len(self._owners) > KNOWN_OWNERS_MAX:
            self._owners.popitem(last=False)

    async def _post(self, url: str, operation: str, args: Any) -> tuple[int, dict[str, Any]]:
        import aiohttp  # here: 147 ms and 26 MB that brokers, which import this package too, never need

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout_s), trust_env=False
            )
        try:
            async with self._session.post(
                f"{url}/rpc/{operation}",
                json=api.to_json(args),
                headers={TOKEN_HEADER: self._token},
                allow_redirects=False,
            ) as response:
                body = await _whole_body(response)
                return response.status, cast(dict[str, Any], json.loads(body))
        except aiohttp.ClientConnectorError as error:
            raise _NotReachedError(url) from error
        except aiohttp.ServerDisconnectedError as error:
            if operation in api.READS:
                raise _NotReachedError(url) from error
            raise AdminError(
                503, f"Broker at {url} went away, the change may have happened"
            ) from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise AdminError(503, f"Broker at {url} gave no usable answer") from error

    # Typed faces, in the order of engine.admin.api.Operations. ``topic`` is any name TopicName.parse reads.

    async def create_topic(
        self, topic: TopicName, properties: dict[str, str] | None = None
    ) -> None:
        await self.call("create_topic", api.CreateTopic(str(topic), properties or {}))

    async def delete_topic(self, topic: TopicName, *, force: bool = False) -> None:
        await self.call("delete_topic", api.DeleteTopic(str(topic), force))

    async def topic_stats(self, topic: TopicName, **flags: bool) -> api.JsonObject:
        """Flags: the boolean fields of ``api.TopicStats``."""
        return cast(
            api.JsonObject, await self.call("topic_stats", api.TopicStats(str(topic), **flags))
        )

    async def internal_stats(self, topic: TopicName, *, metadata: bool = False) -> api.JsonObject:
        args = api.InternalStats(str(topic), metadata)
        return cast(api.JsonObject, await self.call("internal_stats", args))

    async def broker_topics_stats(
        self, broker: BrokerAddress, namespace: NamespaceName | None = None
    ) -> api.JsonObject:
        args = api.BrokerTopicsStats(str(namespace) if namespace is not None else None)
        return cast(api.JsonObject, await self.call_on(broker, "broker_topics_stats", args))

    async def create_subscription(
        self,
        topic: TopicName,
        subscription: str,
        position: api.MessagePosition | None = None,
        properties: dict[str, str] | None = None,
        *,
        replicated: bool = False,
    ) -> None:
        args = api.CreateSubscription(
            str(topic), subscription, position, properties or {}, replicated
        )
        await self.call("create_subscription", args)

    async def delete_subscription(
        self, topic: TopicName, subscription: str, *, force: bool = False
    ) -> None:
        args = api.DeleteSubscription(str(topic), subscription, force)
        await self.call("delete_subscription", args)

    async def subscriptions(self, topic: TopicName) -> list[str]:
        return cast(list[str], await self.call("subscriptions", api.OnTopic(str(topic))))

    async def durable_subscriptions(self, topic: TopicName) -> dict[str, dict[str, str]]:
        """Properties by name."""
        found = await self.call("durable_subscriptions", api.OnTopic(str(topic)))
        return cast(dict[str, dict[str, str]], found)

    async def users(self, topic: TopicName) -> int:
        """Producers and consumers connected to the topic."""
        stats = await self.topic_stats(topic, subscription_backlog_size=False)
        consumers = (len(each["consumers"]) for each in stats["subscriptions"].values())
        return len(stats["publishers"]) + sum(consumers)

    async def skip_messages(self, topic: TopicName, subscription: str, count: int) -> None:
        await self.call("skip_messages", api.Skip(str(topic), subscription, count))

    async def clear_backlog(self, topic: TopicName, subscription: str) -> None:
        await self.call("clear_backlog", api.OnSubscription(str(topic), subscription))

    async def reset_cursor(
        self,
        topic: TopicName,
        subscription: str,
        *,
        timestamp_ms: int | None = None,
        position: api.MessagePosition | None = None,
    ) -> None:
        args = api.ResetCursor(str(topic), subscription, timestamp_ms, position)
        await self.call("reset_cursor", args)

    async def expire_messages(self, topic: TopicName, subscription: str, seconds: int) -> None:
        await self.call("expire_messages", api.ExpireMessages(str(topic), subscription, seconds))

    async def peek(self, topic: TopicName, subscription: str, nth: int = 1) -> api.JsonObject:
        args = api.Peek(str(topic), subscription, nth)
        return cast(api.JsonObject, await self.call("peek", args))

    async def last_message_id(self, topic: TopicName) -> api.JsonObject:
        return cast(api.JsonObject, await self.call("last_message_id", api.OnTopic(str(topic))))

    async def terminate(self, topic: TopicName) -> api.JsonObject:
        return cast(api.JsonObject, await self.call("terminate", api.OnTopic(str(topic))))

    async def unload(self, topic: TopicName) -> None:
        await self.call("unload", api.OnTopic(str(topic)))

    async def preview_change(
        self,
        topic: TopicName,
        subscription: str,
        change: str,
        *,
        count: int | None = None,
        timestamp_ms: int | None = None,
        position: api.MessagePosition | None = None,
    ) -> api.JsonObject:
        """``change`` is ``skip-all``, ``skip`` (with ``count``) or ``reset`` (with a time or a position)."""
        args = api.PreviewChange(
            str(topic),
            subscription,
            cast(Any, change),  # the broker checks it
            count,
            timestamp_ms,
            position,
        )
        return cast(api.JsonObject, await self.call("preview_change", args))

    async def lookup(self, topic: TopicName) -> api.JsonObject:
        return cast(api.JsonObject, await self.call("lookup", api.OnTopic(str(topic))))

    async def health(self, broker: BrokerAddress) -> str:
        return cast(str, await self.call_on(broker, "health", api.NoArguments()))


class _NotReachedError(Exception):
    """No connection, or it was closed before an answer: another broker may know more."""


async def _whole_body(response: "ClientResponse") -> bytes:
    """The body to its end: one ``read(n)`` of a stream gives what has arrived, not all of it."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise ValueError(f"answer is larger than {ANSWER_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


def _owner_key(args: Any) -> str:
    topic = getattr(args, "topic", None)
    return topic if topic is not None else f"{args.namespace}/{args.bundle}"


def _result(status: int, answer: dict[str, Any]) -> Any:
    if status == 200:
        return answer.get("result")
    raise AdminError(status, str(answer.get("reason", f"status {status}")))
