"""For tests: the admin client without sockets. Calls go through the brokers' own handler of their private port."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from engine.admin import api
from engine.admin.client import AdminClient
from engine.auth.internal import TOKEN_HEADER
from engine.base.errors import AdminError
from engine.broker.service import BrokerService
from engine.metadata.store import MetadataStore
from engine.net.http import Request


class DirectAdmin(AdminClient):
    """``brokers()`` says which are reachable; they are found by the address they registered."""

    def __init__(
        self, store: MetadataStore, token: str, reachable: Callable[[], Sequence[BrokerService]]
    ) -> None:
        super().__init__(store, token)
        self._headers = {TOKEN_HEADER.lower(): token}
        self._reachable = reachable
        self.before: Callable[[str, Any], None] | None = None
        """Called with each operation and its arguments before it is sent; may raise AdminError in its place."""

    async def _post(self, url: str, operation: str, args: Any) -> tuple[int, dict[str, Any]]:
        if self.before is not None:
            self.before(operation, args)
        for broker in self._reachable():
            if broker.record.web_url == url:
                body = json.dumps(api.to_json(args)).encode()
                request = Request("POST", f"/rpc/{operation}", "", self._headers, body)
                response = await broker._answer(request)
                return response.status, json.loads(response.body)
        raise AdminError(503, f"Broker at {url} does not answer")
