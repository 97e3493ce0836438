"""Ends of transactions in a terminated topic, which takes no markers any more.

A snapshot without an open transaction, whose readable end is that of the topic, says the same as their markers would.
So an end is known at once, and confirmed when all transactions of the topic have ended and that snapshot is stored.
Until then a load finds the transactions open, and their coordinators request the ends again.
"""

from collections.abc import Awaitable, Callable

from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.broker.errors import BrokerError, ServiceNotReady
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.txn_id import TxnId


class UnmarkedEnds:
    """The ends that are known and not stored, with the outcomes that wait for that.

    ``store`` stores a snapshot of what is known, one at a time; it raises MagnetarError.
    """

    __slots__ = ("_scope", "_store", "_storing", "_waiting")

    def __init__(self, scope: TaskScope, store: Callable[[], Awaitable[None]]) -> None:
        self._scope = scope
        self._store = store
        self._storing = False
        self._waiting: dict[TxnId, list[Outcome]] = {}

    def __contains__(self, txn: TxnId) -> bool:
        return txn in self._waiting

    def add(self, txn: TxnId, outcome: Outcome, *, last: bool) -> None:
        """Note an end, or that it was requested again. ``last``: no transaction of the topic is open any more."""
        self._waiting.setdefault(txn, []).append(outcome)
        if last and not self._storing and not self._scope.closed:
            self._storing = True
            self._scope.spawn("ends in a terminated topic", self._confirm())

    async def _confirm(self) -> None:
        try:
            await self._store()
        except MagnetarError as error:
            self.fail(ServiceNotReady(f"The end is not stored: {error}"))
            return
        finally:
            self._storing = False
        waiting, self._waiting = self._waiting, {}
        for outcomes in waiting.values():
            for outcome in outcomes:
                outcome(None)

    def fail(self, error: BrokerError) -> None:
        """Report that the ends are not stored; they are confirmed when they are requested again."""
        for txn, outcomes in self._waiting.items():
            self._waiting[txn] = []
            for outcome in outcomes:
                outcome(error)
