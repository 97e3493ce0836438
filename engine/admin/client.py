"""Client of the brokers' private HTTP ports, which calls the broker that owns a topic or bundle.

The gateway uses one client per event loop.
"""

import asyncio
import json
from collections import OrderedDict
from typing import Any, NamedTuple, cast

from engine.auth.internal import TOKEN_HEADER
from engine.base.errors import Conflict, Failed, NotReady, NotServed, refusal
from engine.metadata import paths
from engine.metadata.cached import derived, forget
from engine.metadata.records import decode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import (
    AnswerLostError,
    HttpClient,
    NotReachedError,
    UnusableAnswerError,
)
from engine.net.network import Network
from engine.rpc.operation import A, Operation, R, encode_call

LOOK_UP_AGAIN_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses between attempts, while the bundle changes its owner or its namespace was just created again."""
HOPS_MAX = 5
"""Maximum number of redirects that one call follows while ownership changes."""
KNOWN_OWNERS_MAX = 10_000
ANSWER_BYTES_MAX = 64 << 20
UNREACHABLE_REASON = "No broker is available"


class BrokerAddress(NamedTuple):
    """A registered broker. ``id`` is ``host:http-port``; ``rpc_url`` is its private HTTP URL without a final slash."""

    id: str
    rpc_url: str
    service_url: str
    started_ms: int = 0
    """Start time in its registration, epoch milliseconds; 0 when it has none."""


class AdminClient:
    """Caller of administrative operations on the broker that owns their topic or bundle.

    Every call raises Refusal with the kind and reason of the broker's answer, NotReady when no broker answers within
    ``timeout_s``. A cancelled or timed-out change may or may not have happened.
    """

    def __init__(
        self, store: MetadataStore, network: Network, token: str, *, timeout_s: float = 30.0
    ) -> None:
        self._store = store
        self._token = token
        self._http = HttpClient(network, timeout_s=timeout_s, answer_bytes_max=ANSWER_BYTES_MAX)
        self._owners: OrderedDict[str, str] = OrderedDict()
        """Last known rpc_url of the owner by topic or bundle, which may be outdated."""

    def close(self) -> None:
        """Close all connections; pending calls fail."""
        self._http.close()

    async def brokers(self) -> list[BrokerAddress]:
        """Return the registered brokers, sorted by id."""
        try:
            ids = await self._store.children(paths.LOADBALANCE_BROKERS)
        except NoNodeError:
            return []
        brokers = []
        for broker_id in ids:
            try:
                brokers.append(await derived(self._store, paths.broker(broker_id), _address))
            except NoNodeError:
                continue  # its registration ended meanwhile
        return brokers

    async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
        """Run ``operation`` on the owner of the topic or bundle that ``args`` names, on behalf of ``principal``."""
        try:
            for pause_s in (*LOOK_UP_AGAIN_S, None):
                try:
                    return await self._call(operation, args, principal)
                except NotServed:  # refused before any change, so that a retry is safe
                    self._owners.pop(_owner_key(args), None)
                    if pause_s is None:
                        raise
                    await asyncio.sleep(pause_s)
            raise AssertionError("the last attempt returns or raises")
        finally:
            self._forget_changed(operation, args)

    async def _call(self, operation: Operation[A, R], args: A, principal: str) -> R:
        key, body = _owner_key(args), encode_call(args, principal)
        hint = self._owners.get(key)
        if hint is not None:
            try:
                return cast(R, await self._follow(hint, key, operation, body))
            except NotReachedError:
                self._owners.pop(key, None)
        for broker in await self.brokers():
            if broker.rpc_url != hint:
                try:
                    return cast(R, await self._follow(broker.rpc_url, key, operation, body))
                except NotReachedError:
                    continue
        raise NotReady(UNREACHABLE_REASON)

    async def call_on(
        self, broker: BrokerAddress, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R:
        """Run ``operation`` on this broker, without following redirects.

        For operations about the broker itself, or those that must not run elsewhere. Raises Conflict when another
        broker is responsible.
        """
        try:
            status, answer = await self._request(
                broker.rpc_url, operation, encode_call(args, principal)
            )
        except NotReachedError as error:
            raise NotReady(f"Broker {broker.id} does not answer") from error
        finally:
            self._forget_changed(operation, args)
        if status == 307:
            raise Conflict(f"It is not broker {broker.id}'s any more")
        return cast(R, _result(status, answer))

    def _forget_changed(self, operation: Operation[Any, Any], args: Any) -> None:
        """Drop cached metadata that the broker may have changed, whatever it answered (C2)."""
        topic = getattr(args, "topic", None)
        namespace = topic.namespace if topic is not None else getattr(args, "namespace", None)
        if not operation.reads and namespace is not None:
            forget(self._store, namespace, topic)

    async def _follow(self, url: str, key: str, operation: Operation[Any, Any], body: bytes) -> Any:
        for _ in range(HOPS_MAX):
            status, answer = await self._request(url, operation, body)
            if status != 307:
                self._remember(key, url)
                return _result(status, answer)
            url = str(answer["location"])
        raise NotReady(f"Ownership of {key} keeps moving")

    async def _request(
        self, url: str, operation: Operation[Any, Any], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of the broker's answer.

        Raises NotReachedError when another broker may be called instead: nothing was changed.
        """
        try:
            status, answer = await self._post(f"{url}/rpc/{operation.name}", body)
            return status, cast(dict[str, Any], json.loads(answer))
        except AnswerLostError as error:
            if operation.reads:
                raise NotReachedError(url) from error
            raise NotReady(
                f"Broker at {url} did not answer; the change may have happened"
            ) from error
        except (UnusableAnswerError, ValueError) as error:
            raise NotReady(f"Broker at {url} gave no usable answer") from error

    def _remember(self, key: str, url: str) -> None:
        self._owners[key] = url
        self._owners.move_to_end(key)
        if len(self._owners) > KNOWN_OWNERS_MAX:
            self._owners.popitem(last=False)

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and body of the answer. Raises the kinds of HttpError, ValueError for an invalid URL."""
        return await self._http.request(
            "POST", url, headers=[(TOKEN_HEADER, self._token)], body=body
        )


def _address(value: bytes, path: str) -> BrokerAddress:
    record = decode_json(value, path)
    url = record.get("adminRpcUrl") or record.get("webServiceUrl") or ""
    broker_id = path.rpartition("/")[2]
    started = record.get("startTimestamp")
    return BrokerAddress(
        broker_id,
        url.rstrip("/"),
        record.get("pulsarServiceUrl", ""),
        started if isinstance(started, int) else 0,
    )


def _owner_key(args: Any) -> str:
    topic = getattr(args, "topic", None)
    return str(topic) if topic is not None else f"{args.namespace}/{args.bundle}"


def _result(status: int, answer: dict[str, Any]) -> Any:
    if status == 200:
        return answer.get("result")
    reason = str(answer.get("reason", f"status {status}"))
    if status == 401:
        # Not a Refusal: the processes have different tokens, which only the operator can change.
        raise NotReady(reason)
    raise refusal(str(answer["code"]), reason) if "code" in answer else Failed(reason)
