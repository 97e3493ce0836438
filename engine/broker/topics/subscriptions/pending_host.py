"""A subscription as its transactional acknowledgements use it."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.ranges import words_of
from engine.base.tasks import TaskScope
from engine.broker.policies import TopicPolicies
from engine.broker.topics.ports import SubscriptionCursor
from engine.broker.topics.subscriptions.subscription_dispatch import SubscriptionDispatch
from engine.broker.transactions.pending.pending_state import PendingState, TxnAcks
from engine.managed.errors import InvalidPositionError

log = logging.getLogger(__name__)


class TopicOfPending(Protocol):
    """Parts of a topic that transactional acknowledgements use."""

    @property
    def name(self) -> TopicName: ...

    @property
    def scope(self) -> TaskScope: ...

    @property
    def policies(self) -> TopicPolicies: ...


class SubscriptionOfPending:
    """``PendingHost`` of a subscription. ``passed`` is called after the cursor was changed by a commit."""

    __slots__ = ("_dispatch", "_passed", "_topic", "acked", "name")

    def __init__(
        self,
        topic: TopicOfPending,
        cursor: SubscriptionCursor,
        dispatch: SubscriptionDispatch,
        passed: Callable[[], None],
    ) -> None:
        self.name = cursor.name
        self.acked = cursor
        self._topic = topic
        self._dispatch = dispatch
        self._passed = passed

    @property
    def topic(self) -> TopicName:
        return self._topic.name

    @property
    def scope(self) -> TaskScope:
        return self._topic.scope

    @property
    def policies(self) -> TopicPolicies:
        return self._topic.policies

    def hide(self, pending: PendingState) -> None:
        self._dispatch.hide(pending)

    def commit(self, held: TxnAcks) -> None:
        whole = [position for position, ack in held.acks.items() if not ack.kept]
        self.acked.acknowledge(whole)
        try:
            for position, ack in held.acks.items():
                if ack.kept:
                    self.acked.acknowledge_batch(position, words_of(ack.kept))
            up_to = held.cumulative
            if up_to is not None and up_to.position > self.acked.mark_delete:
                self.acked.acknowledge_cumulative(up_to.position, words_of(up_to.kept))
                if self._dispatch.compacted is not None and not up_to.kept:
                    self._dispatch.compacted.acknowledged(up_to.position)
        except InvalidPositionError as error:
            # Checked when it was acknowledged; a record of another broker may have what this one refuses.
            log.warning("acknowledgement not applied cursor=%s: %s", self.name, error)
        self._passed()

    def release(self, positions: Sequence[Position], *, everything: bool) -> None:
        due = [at for at in positions if not self.acked.is_acknowledged(at)]
        if due or everything:
            self._dispatch.release(due)
