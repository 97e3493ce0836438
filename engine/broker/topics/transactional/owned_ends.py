"""Ends of transactions on the topics that this broker serves, and on their subscriptions."""

from engine.broker.errors import BrokerError
from engine.broker.ports import Ownership
from engine.broker.topic_table import TopicTable
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.broker.transactions.outcomes import Outcome
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

    def on_topic(
        self, txn: TxnId, topic: str, *, commit: bool, low_water_mark: int, outcome: Outcome
    ) -> bool:
        loaded = self._owned(topic)
        if loaded is None:
            return False
        buffer = loaded.transactions
        if buffer is None:
            outcome(None)
            return True
        return buffer.end_soon(txn, commit=commit, low_water_mark=low_water_mark, outcome=outcome)

    def on_subscription(
        self,
        txn: TxnId,
        topic: str,
        subscription: str,
        *,
        commit: bool,
        low_water_mark: int,
        outcome: Outcome,
    ) -> bool:
        loaded = self._owned(topic)
        # A subscription that cannot be read now may have acknowledgements of the transaction.
        if loaded is None or subscription in loaded.subscriptions.unread:
            return False
        present = loaded.subscriptions.get(subscription)
        pending = None if present is None else present.pending_acks
        if pending is None:
            outcome(None)
            return True
        return pending.end_soon(txn, commit=commit, low_water_mark=low_water_mark, outcome=outcome)
