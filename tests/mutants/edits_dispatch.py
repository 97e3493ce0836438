"""Mistakes in dispatch, compaction and topic patterns."""

from tests.mutants.edit import Edit

PARKED = "engine/broker/dispatch/parked.py"
LISTS = "unit/broker/control/test_topic_lists.py"
TOPIC_LISTS = "engine/broker/control/topic_lists.py"

EDITS = (
    Edit(
        "a-cancelled-caller-ends-the-watchers-change",
        f"{TOPIC_LISTS}::TopicLists._look",
        "await asyncio.shield(followed.notifying)",
        "await followed.notifying",
        (f"{LISTS}::test_changes_keep_their_order_when_the_caller_that_listed_is_cancelled",),
    ),
    Edit(
        "changes-of-topics-overtake-each-other",
        f"{TOPIC_LISTS}::TopicLists._look",
        "await asyncio.wait([followed.notifying])",
        "pass",
        (f"{LISTS}::test_changes_keep_their_order_when_the_caller_that_listed_is_cancelled",),
    ),
    Edit(
        "a-topic-pattern-repeats-once-more",
        "engine/base/regex/linear.py::_Program._emit_repeat",
        "range(node.most - node.least)",
        "range(node.most - node.least + 1)",
        ("unit/base/regex/test_linear.py::test_it_agrees_with_pythons_matcher",),
    ),
    Edit(
        "a-notification-overtakes-the-answer-to-subscribe",
        "engine/broker/dispatch/consumer.py::Consumer.notify",
        "if self._early is None:",
        "if True:",
        (
            "unit/broker/connection/test_consume.py::"
            "test_each_failover_consumer_is_notified_right_behind_the_answer",
        ),
        "D8",
    ),
    Edit(
        "what-is-parked-is-not-bounded-in-bytes",
        f"{PARKED}::Parked.has_room",
        "self._bytes + view.size <= PARKED_BYTES_MAX",
        "True",
        ("unit/broker/dispatch/test_parked.py::test_large_entries_are_bounded_by_their_bytes",),
    ),
    Edit(
        "what-is-parked-keeps-its-whole-read",
        f"{PARKED}::_small_buffers",
        "run.held <= WASTE_MAX * view.size",
        "True",
        (
            "unit/broker/dispatch/test_parked.py::"
            "test_a_small_entry_does_not_keep_the_read_alive_that_it_came_with",
        ),
    ),
    Edit(
        "what-is-parked-again-comes-last",
        f"{PARKED}::Parked.put_back",
        "views.appendleft(part)",
        "views.append(part)",
        (
            "unit/broker/dispatch/test_parked.py::test_what_was_taken_and_not_sent_comes_first_again",
        ),
        "D10",
    ),
)
