"""The question whether a transaction is over, which a topic asks of the transaction's coordinator (X11).

It is asked in requests that clients use, so that it is understood by every broker. The first one adds the topic or
subscription to the transaction, where a client forgot that; only a transaction that is not open refuses it.
"""

from engine.broker.transactions.txn_id import TxnId
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.tenancy.initialization import COORDINATORS
from engine.wire import client_commands as say
from engine.wire.errors import RefusedError, ServerError


class CoordinatorInquiry:
    """Asks the coordinators of the cluster, with the rights of a broker. ``client`` bounds the time of each request."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client

    async def is_over(self, txn: TxnId, topic: str, subscription: str | None) -> bool:
        """Return whether a transaction has ended everywhere, or never began, so that no end of it follows.

        ``topic``: full name of one that has messages of it, or the acknowledgements of ``subscription``. Raises
        RefusedError and the errors of ``PulsarClient.owner`` while that is not known. Cancel-safe.
        """
        count = await self._client.partitions(COORDINATORS.full)
        if txn.most >= count:
            return count > 0
        link = await self._client.owner(COORDINATORS.partition_at(txn.most).full)
        request_id = link.new_id()
        await link.request(request_id, say.connect_coordinator(txn.most, request_id))
        request_id = link.new_id()
        if subscription is None:
            frame = say.add_partitions(txn, request_id, [topic])
        else:
            frame = say.add_subscriptions(txn, request_id, [(topic, subscription)])
        try:
            await link.request(request_id, frame)
        except RefusedError as error:
            if error.code == ServerError.TransactionNotFound:
                return True
            if error.code != ServerError.InvalidTxnStatus:
                raise
            # It is decided how it ends; the request that repeats the decision is answered behind the end.
            return await _ended(link, txn, commit=False) or await _ended(link, txn, commit=True)
        return False


async def _ended(link: BrokerLink, txn: TxnId, *, commit: bool) -> bool:
    """Repeat the end of a transaction, and return whether it ended so, or is not known any more."""
    request_id = link.new_id()
    try:
        await link.request(request_id, say.end_transaction(txn, request_id, commit=commit))
    except RefusedError as error:
        if error.code == ServerError.InvalidTxnStatus:
            return False
        if error.code != ServerError.TransactionNotFound:
            raise
    return True
