"""Reach the broker that owns a topic over its private HTTP port. Used by the gateway; one client per event loop."""

import asyncio
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from engine.admin.operation import A, Operation, R, encode_call
from engine.auth.internal import TOKEN_HEADER
from engine.base.errors import Failed, NotReady, refusal
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

    Every call raises Refusal with the kind and reason that the broker gave, NotReady when no broker answers
    within ``timeout_s``. Not cancel-safe for changes: a cancelled or timed-out change may or may not have happened.
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

    async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
        """Run ``operation`` on the owner of the topic or bundle that ``args`` names, on behalf of ``principal``."""
        key, body = _owner_key(args), encode_call(args, principal)
        hint = self._owners.get(key)
        urls = [hint] if hint is not None else []
        urls += [broker.rpc_url for broker in await self.brokers() if broker.rpc_url != hint]
        for url in urls:
            try:
                return cast(R, await self._follow(url, key, operation, body))
            except _NotReachedError:
                self._owners.pop(key, None)
        raise NotReady(UNREACHABLE_REASON)

    async def call_on(
        self, broker: BrokerAddress, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R:
        """Run ``operation`` on this very broker, for operations about the broker itself."""
        try:
            status, answer = await self._ask(
                broker.rpc_url, operation, encode_call(args, principal)
            )
        except _NotReachedError as error:
            raise NotReady(f"Broker {broker.id} does not answer") from error
        return cast(R, _result(status, answer))

    async def _follow(self, url: str, key: str, operation: Operation[Any, Any], body: bytes) -> Any:
        for _ in range(HOPS_MAX):
            status, answer = await self._ask(url, operation, body)
            if status != 307:
                self._remember(key, url)
                return _result(status, answer)
            url = str(answer["location"])
        raise NotReady(f"Ownership of {key} keeps moving")

    async def _ask(
        self, url: str, operation: Operation[Any, Any], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON object of the broker's answer."""
        try:
            status, answer = await self._post(f"{url}/rpc/{operation.name}", body)
            return status, cast(dict[str, Any], json.loads(answer))
        except _AnswerLostError as error:
            if operation.reads:
                raise _NotReachedError(url) from error
            raise NotReady(f"Broker at {url} went away, the change may have happened") from error
        except ValueError as error:
            raise NotReady(f"Broker at {url} gave no usable answer") from error

    def _remember(self, key: str, url: str) -> None:
        self._owners[key] = url
        self._owners.move_to_end(key)
        if len(self._owners) > KNOWN_OWNERS_MAX:
            self._owners.popitem(last=False)

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. Raises _NotReachedError, _AnswerLostError, ValueError for an unusable one."""
        import aiohttp  # here: 147 ms and 26 MB that brokers, which import this package too, never need

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout_s), trust_env=False
            )
        try:
            async with self._session.post(
                url, data=body, headers={TOKEN_HEADER: self._token}, allow_redirects=False
            ) as response:
                return response.status, await _whole_body(response)
        except aiohttp.ClientConnectorError as error:
            raise _NotReachedError(url) from error
        except aiohttp.ServerDisconnectedError as error:
            raise _AnswerLostError(url) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ValueError(f"no answer: {error}") from error


class _NotReachedError(Exception):
    """No connection: another broker may know more."""


class _AnswerLostError(Exception):
    """The connection ended before an answer."""


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
    return str(topic) if topic is not None else f"{args.namespace}/{args.bundle}"


def _result(status: int, answer: dict[str, Any]) -> Any:
    if status == 200:
        return answer.get("result")
    reason = str(answer.get("reason", f"status {status}"))
    raise refusal(str(answer["code"]), reason) if "code" in answer else Failed(reason)
