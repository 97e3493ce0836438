"""A client of one transaction coordinator over the engine's own links, as the official clients speak to it."""

from collections.abc import Callable, Sequence

from engine.client.broker_link import BrokerLink
from engine.client.lookup import Links
from engine.tenancy.initialization import COORDINATORS
from engine.wire import client_commands as say

Txn = tuple[int, int]


class TransactionClient:
    """Begins and ends transactions of coordinator ``number``. Methods raise RefusedError and the errors of links."""

    def __init__(self, link: BrokerLink, number: int) -> None:
        self.link = link
        self._number = number

    @classmethod
    async def open(cls, links: Links, url: str, number: int = 0) -> "TransactionClient":
        """Connect to the broker of the coordinator."""
        link = await links.owner(COORDINATORS.partition_at(number).full, url)
        client = cls(link, number)
        await client._ask(lambda request: say.connect_coordinator(number, request))
        return client

    async def _ask(self, frame: Callable[[int], bytes]) -> Txn:
        request_id = self.link.new_id()
        answer = await self.link.request(request_id, frame(request_id))
        return getattr(answer, "txnid_most_bits", 0), getattr(answer, "txnid_least_bits", 0)

    async def begin(self, timeout_ms: int) -> Txn:
        return await self._ask(
            lambda request: say.new_transaction(self._number, request, timeout_ms)
        )

    async def add_partitions(self, txn: Txn, topics: Sequence[str]) -> None:
        await self._ask(lambda request: say.add_partitions(txn, request, topics))

    async def add_subscriptions(self, txn: Txn, subscriptions: Sequence[tuple[str, str]]) -> None:
        await self._ask(lambda request: say.add_subscriptions(txn, request, subscriptions))

    async def end(self, txn: Txn, *, commit: bool) -> None:
        await self._ask(lambda request: say.end_transaction(txn, request, commit=commit))
