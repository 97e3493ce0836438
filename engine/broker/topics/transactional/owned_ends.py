"""Ends of transactions on the topics that this broker serves, and on their subscriptions."""

from engine.broker.errors import BrokerError
from engine.broker.ports import Ownership
from engine.broker.topic_table import TopicTable
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.ports import TransactionAcks, TransactionBuffer
from engine.broker.transactions.txn_id import TxnId


class TopicEnds:
    """``OwnedEnds`` of a broker's topics, which are ``loaded``."""

    __slots__ = ("_loaded", "_ownership", "_topics")

    def __init__(
        self, topics: TopicRegistry, loaded: TopicTable[Topic], ownership: Ownership
    ) -> None:
        self._topics = topics
        self._loaded = loaded
        self._ownership = ownership

    def owns(self, topic: str) -> bool:
        return self._owned(topic) is not None

    def _owned(self, full: str) -> Topic | None:
        topic = self._loaded.get(full)
        if topic is None or not self._topics.serves(topic):
            return None
        try:
            self._ownership.check_owned(topic.name)
        except BrokerError:
            return None
        return topic

    def end(
        self,
        txn: TxnId,
        topic: str,
        subscription: str | None,
        *,
        commit: bool,
        low_water_mark: int,
        outcome: Outcome,
    ) -> bool:
        loaded = self._owned(topic)
        # A subscription that cannot be read now may have acknowledgements of the transaction.
        if loaded is None or subscription in loaded.subscriptions.unread:
            return False
        ending: TransactionBuffer | TransactionAcks | None = loaded.transactions
        if subscription is not None:
            present = loaded.subscriptions.get(subscription)
            ending = None if present is None else present.pending_acks
        if ending is None:
            outcome(None)
            return True
        return ending.end_soon(txn, commit=commit, low_water_mark=low_water_mark, outcome=outcome)
