"""Edits of transactions."""

from tests.mutants.edit import Edit

BUFFER = "unit/broker/transactions/buffer/test_topic_buffer.py"
PENDING = "unit/broker/transactions/pending/test_pending_ack_handle.py"
HANDLE = "engine/broker/transactions/pending/pending_ack_handle.py"
COORDINATOR = "unit/broker/transactions/coordinator/test_coordinator.py"
OWNED = "unit/broker/topics/transactional/test_owned_ends.py"
OPEN = "unit/broker/transactions/buffer/test_open_transactions.py"
TOPIC_BUFFER = "engine/broker/transactions/buffer/topic_buffer.py"
OPEN_TRANSACTIONS = "engine/broker/transactions/buffer/open_transactions.py"

COORDINATOR_SOURCE = "engine/broker/transactions/coordinator/coordinator.py"
COORDINATOR_LOG = "engine/broker/transactions/coordinator/coordinator_log.py"

EDITS: tuple[Edit, ...] = (
    Edit(
        "an-open-transaction-is-read",
        f"{TOPIC_BUFFER}::TopicBuffer.enter",
        "if not self._is_held:",
        "if False:",
        (f"{BUFFER}::test_x1_messages_wait_for_the_first_open_transaction",),
        "X1",
    ),
    Edit(
        "a-loaded-topic-is-read-before-its-transactions-are-known",
        f"{TOPIC_BUFFER}::TopicBuffer.restore",
        "self._log.hold_reads(EARLIEST)",
        "pass",
        (f"{BUFFER}::test_x1_what_was_stored_is_restored_before_anything_is_read",),
        "X1",
    ),
    Edit(
        "aborted-messages-are-delivered",
        "engine/broker/dispatch/source.py::EntrySource._messages",
        "aborted = self._topic.aborted",
        "aborted = ()",
        (f"{BUFFER}::test_x1_aborted_messages_are_acknowledged_and_use_no_permit",),
        "X1",
    ),
    Edit(
        "the-limit-is-where-the-last-transaction-begins",
        f"{OPEN_TRANSACTIONS}::OpenTransactions.limit",
        "next(iter(self.ongoing.values()), None)",
        "next(reversed(self.ongoing.values()), None)",
        (f"{OPEN}::test_x2_the_limit_is_the_first_entry_of_the_oldest_open_transaction",),
        "X2",
    ),
    Edit(
        "a-stored-commit-is-not-read",
        f"{OPEN_TRANSACTIONS}::OpenTransactions.read",
        "if facts.marker == COMMIT:",
        "if False:",
        (f"{OPEN}::test_x2_what_is_read_of_a_log_is_what_was_known_when_it_was_written",),
        "X2",
    ),
    Edit(
        "an-end-is-stored-again",
        f"{TOPIC_BUFFER}::TopicBuffer._mark",
        "if txn not in self.transactions.ongoing:",
        "if False:",
        (f"{BUFFER}::test_x3_ends_are_repeated_without_a_second_marker",),
        "X3",
    ),
    Edit(
        "pending-messages-are-delivered",
        "engine/broker/transactions/pending/pending_cursor.py::PendingCursor._is_pending",
        "return kept is not None",
        "return False",
        (f"{PENDING}::test_x4_nothing_pending_is_delivered_to_the_next_consumer",),
        "X4",
    ),
    Edit(
        "a-message-is-acknowledged-in-two-transactions",
        "engine/broker/transactions/pending/pending_state.py::PendingState.add",
        "if pending is not None and _overlap(ack, pending):",
        "if False:",
        (f"{PENDING}::test_x4_acknowledgements_conflict",),
        "X4",
    ),
    Edit(
        "a-stored-commit-is-not-applied-again",
        f"{HANDLE}::PendingAckHandle._replay",
        "commits.append(held)",
        "pass",
        (f"{PENDING}::test_x5_a_reload_restores_what_is_pending",),
        "X5",
    ),
    Edit(
        "a-log-that-failed-is-used-on",
        f"{HANDLE}::PendingAckHandle._append",
        'self._loaded, self.status = False, "Error"',
        "pass",
        (f"{PENDING}::test_x5_an_unknown_outcome_is_settled_by_a_replay",),
        "X5",
    ),
    Edit(
        "a-seek-keeps-commits",
        f"{HANDLE}::PendingAckHandle.clear",
        "await opened.clear()",
        "pass",
        (f"{PENDING}::test_x5_a_seek_forgets_open_and_committed_transactions",),
        "X5",
    ),
    Edit(
        "time-outs-follow-a-clock-that-is-set",
        "engine/broker/transactions/coordinator/coordinator.py::Coordinator._now_ms",
        "self._epoch_ms + int(self._clock.monotonic_s() * 1000)",
        "self._clock.wall_ms()",
        (f"{COORDINATOR}::test_x6_a_clock_that_is_set_changes_no_time_out",),
        "X6",
    ),
    Edit(
        "an-end-is-sent-before-its-decision-is-durable",
        f"{COORDINATOR_SOURCE}::Coordinator._decide",
        "self.log.append(record, txn.positions, partial(self._decided, txn))",
        "self.log.append(record, txn.positions, lambda error: self._decided(txn)) or self._decided(txn)",
        (f"{COORDINATOR}::test_an_end_is_not_sent_before_its_decision_is_durable",),
        "X7",
    ),
    Edit(
        "ids-repeat-behind-a-trimmed-log",
        f"{COORDINATOR_LOG}::CoordinatorLog._replay_newest",
        "table.newest = int(self.ledger.properties.get(NEWEST, -1))",
        "pass",
        (f"{COORDINATOR}::test_ids_never_repeat_although_the_whole_log_was_trimmed",),
        "X7",
    ),
    Edit(
        "what-was-decided-is-not-continued",
        f"{COORDINATOR_SOURCE}::Coordinator.recover",
        "if txn.status != Entry.OPEN:",
        "if False:",
        (f"{COORDINATOR}::test_the_next_owner_continues_what_was_decided_and_keeps_what_is_open",),
        "X8",
    ),
    Edit(
        "a-repeated-commit-is-refused",
        "engine/broker/transactions/coordinator/transaction_table.py::TransactionTable.finish",
        "txn.status == Entry.COMMITTING",
        "txn.status == Entry.ABORTING",
        (
            f"{COORDINATOR}::test_an_end_that_is_requested_again_succeeds_and_the_other_one_is_refused",
        ),
        "X8",
    ),
    Edit(
        "an-end-is-answered-before-it-is-confirmed-everywhere",
        "engine/broker/transactions/coordinator/participants.py::_End.confirmed",
        "if not self.left:",
        "if True:",
        (f"{OWNED}::test_an_end_is_confirmed_when_all_participants_have_confirmed_it",),
        "X8",
    ),
    Edit(
        "a-topic-that-may-have-another-owner-confirms-an-end",
        "engine/broker/topics/transactional/owned_ends.py::TopicEnds._owned",
        "self._ownership.check_owned(topic.name)",
        "pass",
        (f"{OWNED}::test_x8_a_topic_that_may_have_another_owner_confirms_no_end",),
        "X8",
    ),
    Edit(
        "time-outs-are-not-continued",
        f"{COORDINATOR_SOURCE}::Coordinator.recover",
        "self._check_deadlines()",
        "pass",
        (f"{COORDINATOR}::test_transactions_time_out_at_their_time_also_at_the_next_owner",),
        "X9",
    ),
    Edit(
        "any-role-ends-a-transaction",
        "engine/broker/connection/transactions.py::TransactionCommands._check_owner",
        "if owner is None or owner == self._role:",
        "if True:",
        (
            "unit/broker/connection/test_transactions.py::test_another_role_cannot_use_a_transaction",
        ),
        "X10",
    ),
    Edit(
        "what-no-coordinator-ends-stays-open",
        "engine/broker/topics/transactional/abandoned.py::AbandonedTransactions._ask",
        "if not await self._inquiry.is_over(*place):",
        "if await self._inquiry.is_over(*place):",
        (
            "unit/broker/topics/transactional/test_abandoned.py::test_x11_what_never_ends_by_its_coordinator_is_aborted",
        ),
        "X11",
    ),
)
