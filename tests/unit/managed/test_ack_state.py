"""AckState behaves as a naive record of every message does."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.managed.ack_state import AckState
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.stored.records import CursorState

END = 40
BATCH = 5
ALL = (1 << BATCH) - 1
ordinals = st.integers(0, END - 1)


class AckMachine(RuleBasedStateMachine):
    """Reference: bits of unacknowledged messages for each entry, and a mark that may lie anywhere below them."""

    def __init__(self) -> None:
        super().__init__()
        self.state = AckState()
        self.model = [ALL] * END

    def narrow(self, ordinal: int, bits: int) -> bool:
        before = self.model[ordinal]
        self.model[ordinal] &= bits
        return before != self.model[ordinal]

    @rule(ordinal=ordinals)
    def one(self, ordinal: int) -> None:
        assert self.state.acknowledge(ordinal, ordinal + 1) == self.narrow(ordinal, 0)

    @rule(start=ordinals, count=st.integers(0, 12))
    def several(self, start: int, count: int) -> None:
        stop = min(start + count, END)
        changed = [self.narrow(x, 0) for x in range(start, stop)]
        assert self.state.acknowledge(start, stop) == any(changed)

    @rule(ordinal=ordinals)
    def cumulative(self, ordinal: int) -> None:
        self.state.acknowledge(self.state.mark, ordinal)
        for x in range(ordinal):
            self.model[x] = 0

    @rule(ordinal=ordinals, bits=st.integers(0, ALL))
    def part_of_batch(self, ordinal: int, bits: int) -> None:
        self.state.acknowledge_batch(ordinal, bits)
        self.narrow(ordinal, bits)

    @rule(ordinal=st.integers(0, END))
    def reset(self, ordinal: int) -> None:
        self.state.reset(ordinal)
        self.model = [0] * ordinal + [ALL] * (END - ordinal)

    @precondition(lambda self: True)
    @rule()
    def crash_and_recover(self) -> None:
        line = LedgerLine(
            [LedgerSpan(3, 7), LedgerSpan(4, 0), LedgerSpan(9, 20), LedgerSpan(10, 13)]
        )
        stored = CursorState.decode(AckSnapshot.of(self.state, line, {"p": -1}).encode())
        assert stored.properties == {"p": -1}
        self.state = stored.acks(line)

    @invariant()
    def agrees(self) -> None:
        state, model = self.state, self.model
        done = [bits == 0 for bits in model]
        assert [state.is_acknowledged(x) for x in range(END)] == done
        assert state.mark == (done.index(False) if False in done else END)
        assert state.backlog(END) == done.count(False)
        assert [x for low, high in state.pending(0, END) for x in range(low, high)] == [
            x for x in range(END) if not done[x]
        ]
        for x, bits in enumerate(model):
            kept = state.batches.get(x)
            assert (ALL if kept is None else kept) == bits or done[x]
        assert not any(done[x] for x in state.batches)

    @rule(count=st.integers(1, END))
    def finds_the_nth_pending(self, count: int) -> None:
        pending = [x for x in range(END) if self.model[x]]
        expected = pending[count - 1] + 1 if count <= len(pending) else END
        assert self.state.nth_pending(count, END) == expected


TestAckMachine = AckMachine.TestCase
TestAckMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
