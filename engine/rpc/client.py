"""Client of the private HTTP ports of servers, which finds the one that is responsible and repeats what may be
repeated."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from engine.auth.internal import TOKEN_HEADER
from engine.base.errors import Conflict, Failed, NotReady, NotServed, refusal
from engine.net.http_client import (
    AnswerLostError,
    HttpClient,
    NotReachedError,
    UnusableAnswerError,
)
from engine.net.network import Network
from engine.net.tls import ContextSource
from engine.rpc.operation import A, Operation, R, encode_call

LOOK_UP_AGAIN_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses between attempts, while the object of a call changes its owner or was just created again."""
HOPS_MAX = 5
"""Maximum number of redirects that one call follows while ownership changes."""
KNOWN_OWNERS_MAX = 10_000
ANSWER_BYTES_MAX = 64 << 20


class RpcClient:
    """Caller of operations on the servers of one kind, which is called ``kind`` in errors.

    Every call raises Refusal with the kind and reason of the server's answer, NotReady when no server answers within
    ``timeout_s``. A cancelled or timed-out change may or may not have happened.
    """

    def __init__(
        self,
        network: Network,
        token: str,
        kind: str,
        *,
        timeout_s: float,
        tls: ContextSource | None = None,
    ) -> None:
        """Create without connections. With ``tls``, which returns the context for https, redirects are followed in TLS
        only."""
        self._token = token
        self._kind = kind
        self._location = "location" if tls is None else "locationTls"
        self._http = HttpClient(
            network, timeout_s=timeout_s, answer_bytes_max=ANSWER_BYTES_MAX, tls=tls
        )
        self._owners: OrderedDict[str, str] = OrderedDict()
        """Last known URL of the responsible server by the call's key, which may be outdated."""

    def close(self) -> None:
        """Close all connections; pending calls fail."""
        self._http.close()

    async def call(
        self,
        operation: Operation[A, R],
        args: A,
        *,
        key: str,
        servers: Callable[[], Awaitable[Iterable[str]]],
        principal: str = "",
    ) -> R:
        """Run ``operation`` on the server that is responsible for ``key``, on behalf of ``principal``.

        ``servers`` returns the URLs of those that are there, without a final slash; each knows the responsible one.
        """
        body = encode_call(args, principal)
        for pause_s in (*LOOK_UP_AGAIN_S, None):
            try:
                return cast(R, await self._on_owner(operation, body, key, servers))
            except NotServed:  # refused before any change, so that a retry is safe
                self._owners.pop(key, None)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        raise AssertionError("the last attempt returns or raises")

    async def _on_owner(
        self,
        operation: Operation[Any, Any],
        body: bytes,
        key: str,
        servers: Callable[[], Awaitable[Iterable[str]]],
    ) -> Any:
        hint = self._owners.get(key)
        if hint is not None:
            try:
                return await self._follow(hint, key, operation, body)
            except NotReachedError:
                self._owners.pop(key, None)
        for url in await servers():
            if url != hint:
                try:
                    return await self._follow(url, key, operation, body)
                except NotReachedError:
                    continue
        raise NotReady(f"No {self._kind} is available")

    async def call_on(
        self, url: str, name: str, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R:
        """Run ``operation`` on one server, called ``name`` in errors, without following redirects.

        Raises Conflict when another server is responsible.
        """
        try:
            status, answer = await self._request(url, operation, encode_call(args, principal))
        except NotReachedError as error:
            raise NotReady(f"{self._kind.capitalize()} {name} does not answer") from error
        if status == 307:
            raise Conflict(f"It is not {self._kind} {name}'s any more")
        return cast(R, _result(status, answer))

    async def _follow(self, url: str, key: str, operation: Operation[Any, Any], body: bytes) -> Any:
        for _ in range(HOPS_MAX):
            status, answer = await self._request(url, operation, body)
            if status != 307:
                self._remember(key, url)
                return _result(status, answer)
            url = str(answer[self._location])
            if not url:
                raise NotReady(f"The {self._kind} that owns {key} has no HTTP port with TLS")
        raise NotReady(f"Ownership of {key} keeps moving")

    async def _request(
        self, url: str, operation: Operation[Any, Any], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of the server's answer.

        Raises NotReachedError when another server may be called instead: nothing was changed.
        """
        at = f"{self._kind.capitalize()} at {url}"
        try:
            status, answer = await self._post(f"{url}/rpc/{operation.name}", body)
            return status, cast(dict[str, Any], json.loads(answer))
        except AnswerLostError as error:
            if operation.reads:
                raise NotReachedError(url) from error
            raise NotReady(f"{at} did not answer; the change may have happened") from error
        except (UnusableAnswerError, ValueError) as error:
            raise NotReady(f"{at} gave no usable answer") from error

    def _remember(self, key: str, url: str) -> None:
        self._owners[key] = url
        self._owners.move_to_end(key)
        if len(self._owners) > KNOWN_OWNERS_MAX:
            self._owners.popitem(last=False)

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and body of the answer. Raises the kinds of HttpError, ValueError for an invalid URL."""
        answer = await self._http.request(
            "POST", url, headers=[(TOKEN_HEADER, self._token)], body=body
        )
        return answer.status, answer.body


def _result(status: int, answer: dict[str, Any]) -> Any:
    if status == 200:
        return answer.get("result")
    reason = str(answer.get("reason", f"status {status}"))
    if status == 401:
        # Not a Refusal: the processes have different tokens, which only the operator can change.
        raise NotReady(reason)
    raise refusal(str(answer["code"]), reason) if "code" in answer else Failed(reason)
