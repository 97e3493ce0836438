"""The transactions of one topic: open ones, which bound what may be read, and aborted ones, whose messages are hidden.
Pure.

Of an open transaction a position is known before which none of its entries lies: where the log ended when its first
entry was appended, and that entry's own position once it is stored. The first one that is open is the limit of
readers (X2). Aborted transactions are kept until the ledger of their marker is deleted, and their messages with it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.dispatch.facts import MARKER, TRANSACTION, facts_of
from engine.broker.errors import InvalidTxnStatus, NotAllowed
from engine.broker.transactions.buffer.end_markers import ABORT, COMMIT
from engine.broker.transactions.txn_id import TxnId

ENDED_MAX = 10_000
"""Number of ended transactions that are remembered while their coordinator has not stated that they are over."""


class OpenTransactions:
    """The transactions. ``committed_total``, ``aborted_total`` count those that ended here."""

    __slots__ = (
        "_ended",
        "_marks",
        "_unplaced",
        "aborted",
        "aborted_total",
        "committed_total",
        "ongoing",
    )

    def __init__(self, aborted: Mapping[TxnId, Position] | None = None) -> None:
        # The first is read with every end, which in a dict passes all that were removed before it.
        self.ongoing: OrderedDict[TxnId, Position] = OrderedDict()
        """A position before which no entry of the transaction lies, in the order of the first entries."""
        self.aborted: dict[TxnId, Position] = dict(aborted or {})
        """Position of the marker of each aborted transaction, in order."""
        self.committed_total = self.aborted_total = 0
        self._unplaced: set[TxnId] = set()
        """Open transactions whose first entry is not stored yet."""
        self._ended: OrderedDict[TxnId, bool] = OrderedDict()
        """Transactions that ended lately: whether they were committed."""
        self._marks: dict[int, int] = {}
        """Highest id of which a coordinator stated that this and all lower ones are over, by coordinator."""

    @property
    def limit(self) -> Position | None:
        """The position up to which (exclusive) there is no entry of an open transaction; None when none is open."""
        return next(iter(self.ongoing.values()), None)

    @property
    def low_water_marks(self) -> dict[int, int]:
        return self._marks

    # --- messages -------------------------------------------------------------------------------

    def check_open(self, txn: TxnId) -> None:
        """Raise NotAllowed when the transaction is over and takes no more messages."""
        is_over = txn.least <= self._marks.get(txn.most, -1)
        if is_over or txn in self._ended or txn in self.aborted:
            raise NotAllowed(
                f"Transaction [{txn}] has been ended. Please use a new transaction to send message."
            )

    def enter(self, txn: TxnId, end: Position) -> None:
        """Note that an entry of the transaction is appended to a log whose entries are before ``end``."""
        if txn not in self.ongoing:
            self.ongoing[txn] = end
            self._unplaced.add(txn)

    def stored(self, txn: TxnId, position: Position) -> bool:
        """Note that an entry of the transaction is stored; return whether that changes what is known of it."""
        if txn not in self._unplaced:
            return False
        self._unplaced.discard(txn)
        if txn in self.ongoing:
            self.ongoing[txn] = position
        return True

    # --- ends -----------------------------------------------------------------------------------

    def check_same(self, txn: TxnId, *, commit: bool) -> None:
        """Raise InvalidTxnStatus when the transaction ended the other way."""
        committed = False if txn in self.aborted else self._ended.get(txn)
        if committed is not None and committed is not commit:
            state = "COMMITTED" if committed else "ABORTED"
            raise InvalidTxnStatus(f"Transaction {txn} is {state} in this topic")

    def ending(self, txn: TxnId, *, commit: bool) -> None:
        """Note that the transaction takes no more messages, and which way it ends."""
        self._ended[txn] = commit
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def ended(self, txn: TxnId, position: Position, *, commit: bool) -> None:
        """Note that the marker of the transaction is stored at ``position``."""
        self._unplaced.discard(txn)
        if self.ongoing.pop(txn, None) is None:
            return
        if commit:
            self.committed_total += 1
        else:
            self.aborted_total += 1
            self.aborted[txn] = position

    def raise_mark(self, coordinator: int, least: int) -> None:
        """Note that a coordinator stated that all its transactions up to ``least`` are over."""
        if least <= self._marks.setdefault(coordinator, -1):
            return
        self._marks[coordinator] = least
        over = [txn for txn in self._ended if txn.most == coordinator and txn.least <= least]
        for txn in over:
            del self._ended[txn]

    @property
    def lost(self) -> TxnId | None:
        """The first open transaction, if its coordinator stated that it is over; its end was lost."""
        txn = next(iter(self.ongoing), None)
        over = txn is not None and txn.least <= self._marks.get(txn.most, -1)
        return txn if over else None

    def trim(self, first: Position) -> bool:
        """Forget aborted transactions whose marker is in a ledger before that of ``first``, and return whether there
        was one."""
        gone = [txn for txn, at in self.aborted.items() if at.ledger_id < first.ledger_id]
        for txn in gone:
            del self.aborted[txn]
        return bool(gone)

    # --- recovery -------------------------------------------------------------------------------

    def read(self, run: Slice, indexes: Iterable[int]) -> None:
        """Note what entries of ``run`` state, read in the order of the log."""
        special = facts_of(run, MARKER | TRANSACTION).special
        if not special:
            return
        for i in indexes:
            facts = special.get(i)
            if facts is None or facts.transaction is None:
                continue
            txn, position = TxnId(*facts.transaction), run.position(i)
            if facts.marker == COMMIT:
                self.ongoing.pop(txn, None)
                self.ending(txn, commit=True)
            elif facts.marker == ABORT:
                self.ongoing.pop(txn, None)
                self.aborted[txn] = position
            elif facts.marker is None and txn not in self.aborted and txn not in self._ended:
                self.ongoing.setdefault(txn, position)
