"""The stage that passes a topic's transactional messages on to its log, once they may be appended."""

from engine.base.errors import MagnetarError
from engine.broker.dispatch.facts import TRANSACTION, facts_of
from engine.broker.errors import NotAllowed, PersistenceError
from engine.broker.topics.publish import Publish, PublishHost, StagePlace
from engine.broker.transactions.buffer.topic_buffer import TopicBuffer


class TransactionStage:
    """The stage of one topic with transactions. While they are not known, or cannot be stored yet, it keeps runs of
    transactions and what their producers send later."""

    __slots__ = ("_buffer", "_host", "_kept")
    place = StagePlace.TRANSACTION

    def __init__(self, host: PublishHost, buffer: TopicBuffer) -> None:
        self._host = host
        self._buffer = buffer
        self._kept: list[Publish] = []
        """Runs of one producer each, in order."""

    @property
    def keeps(self) -> bool:
        return bool(self._kept)

    def admit(self, publish: Publish) -> bool:
        if not self._kept and (publish.txn is None or self._buffer.takes):
            return self._enter(publish)
        kept = {run.producer for run in self._kept}
        if publish.owners is None:
            if publish.txn is None and publish.producer not in kept:
                return self._enter(publish)
            self._keep(publish)
            return False
        if publish.txn is None and not kept.intersection(publish.owners):
            return self._enter(publish)
        for part in publish.parts():
            if part.txn is not None or part.producer in kept:
                self._keep(part)
            elif self._enter(part):
                self._host.admitted(part, self)
        return False

    def _keep(self, publish: Publish) -> None:
        self._kept.append(publish)
        self._buffer.prepare()

    def _enter(self, publish: Publish) -> bool:
        """Return whether a run may be appended now: its transaction is open, or it is of none and names none."""
        txn, run = publish.txn, publish.run
        try:
            if txn is not None:
                self._buffer.enter(txn)
                facts_of(run, 0).transaction = txn
                return True
            named = facts_of(run, TRANSACTION).special
            if any(facts.transaction is not None for facts in named.values()):
                raise NotAllowed("A message names a transaction that its SEND does not name")
        except NotAllowed as error:
            publish.refuse(error)
            self._host.failed(publish, 0)  # earlier stages count it as pending
            return False
        return True

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        self._buffer.stored(publish.txn, publish.run.position(start), stop - start)

    def failed(self, publish: Publish, start: int) -> None:
        pass  # the transaction stays open where its first entry may be, until it ends

    def release(self, error: MagnetarError | None) -> None:
        """Pass the kept runs on, or refuse them with ``error`` and disconnect their producers, which send them
        again."""
        if error is None and not self._buffer.takes:
            if self._kept:
                self._buffer.prepare()
            return
        kept, self._kept = self._kept, []
        for publish in kept:
            if error is not None:
                publish.refuse(PersistenceError(f"The message could not be stored: {error}"))
                publish.producer.disconnect()
                self._host.failed(publish, 0)
            elif publish.producer.closed:
                publish.drop()
                self._host.failed(publish, 0)
            elif self._enter(publish):
                self._host.admitted(publish, self)

    def end(self) -> None:
        """Drop the kept runs when the topic is closed: the clients send them again."""
        kept, self._kept = self._kept, []
        for publish in kept:
            publish.drop()
