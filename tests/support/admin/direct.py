"""The admin client without sockets. Calls go through the brokers' own handler of their private port."""

from collections.abc import Callable, Sequence
from typing import Any

from engine.admin.client import AdminClient
from engine.auth.internal import TOKEN_HEADER
from engine.base.errors import NotReady
from engine.broker.service import BrokerService
from engine.metadata.store import MetadataStore
from engine.net.http import Request
from engine.net.network import LoopNetwork
from engine.rpc.client import RpcClient
from engine.rpc.operation import Operation, decode_call, parse_arguments


class DirectAdmin(AdminClient):
    """An admin client of the brokers that ``brokers()`` returns, found by the addresses that they registered."""

    def __init__(
        self, store: MetadataStore, token: str, reachable: Callable[[], Sequence[BrokerService]]
    ) -> None:
        super().__init__(store, LoopNetwork(), token)
        self._rpc: RpcClient = DirectRpc(self, token)
        self._reachable = reachable
        self.before: Callable[[Operation[Any, Any], Any], None] | None = None
        """Called with each operation and its arguments before it is sent; may raise Refusal in its place."""


class DirectRpc(RpcClient):
    def __init__(self, admin: DirectAdmin, token: str) -> None:
        super().__init__(LoopNetwork(), token, "broker", timeout_s=30.0)
        self._admin = admin
        self._headers = {TOKEN_HEADER.lower(): token}

    async def _request(
        self, url: str, operation: Operation[Any, Any], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        if self._admin.before is not None:
            args = parse_arguments(operation.arguments, decode_call(body)[1])
            self._admin.before(operation, args)
        return await super()._request(url, operation, body)

    async def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        for broker in self._admin._reachable():
            path = url.removeprefix(broker.record.web_url)
            if path.startswith("/rpc/"):
                request = Request("POST", path, "", self._headers, body)
                response = await broker._answer(request)
                return response.status, response.body
        raise NotReady(f"{url} does not answer")
