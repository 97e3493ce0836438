"""Mistakes in what a connection accepts and answers."""

from tests.mutants.edit import Edit

BOUNDS_TEST = "unit/broker/connection/test_bounds.py"

EDITS = (
    Edit(
        "close-overtakes-subscribe",
        "engine/broker/connection/consume.py::ConsumeCommands",
        "async def close(self, body: pb.CommandCloseConsumer)",
        "def close(self, body: pb.CommandCloseConsumer)",
        (
            "unit/broker/connection/test_session.py::test_a_close_received_with_its_open_takes_effect",
        ),
    ),
    Edit(
        "refused-consumer-left-waiting",
        "engine/broker/connection/consume.py::ConsumeCommands._again",
        'self._connection.client_version.startswith("Pulsar-CPP")',
        "False",
        (
            "unit/broker/connection/test_session.py::test_a_client_that_ignores_a_retriable_refusal_is_sent_a_close",
        ),
    ),
    Edit(
        "the-slow-path-takes-sequence-ids-beyond-int64",
        "engine/broker/connection/produce.py::refuse_send",
        "if number > INT64_MAX:",
        "if False:",
        (f"{BOUNDS_TEST}::test_a_send_with_a_sequence_id_beyond_int64_is_answered_and_not_stored",),
    ),
    Edit(
        "names-of-producers-have-no-bound",
        "engine/broker/connection/bounds.py::check_name",
        "if size > NAME_BYTES_MAX:",
        "if False:",
        (f"{BOUNDS_TEST}::test_a_name_beyond_the_bound_is_refused",),
    ),
    Edit(
        "a-producer-that-was-closed-under-its-creation-stays",
        "engine/broker/connection/produce.py::ProduceCommands.close",
        "self._pending[body.producer_id] = True",
        "pass",
        (
            "unit/broker/topics/test_publishers.py::"
            "test_a_producer_closed_during_its_creation_is_not_attached",
        ),
    ),
    Edit(
        "a-connection-has-no-share-of-its-own-in-what-the-broker-holds",
        "engine/broker/connection/session.py::Session",
        "share=PUBLISH_SHARE_BYTES",
        "share=0",
        (
            "unit/broker/connection/test_backpressure.py::"
            "test_a_producer_of_a_stalled_topic_leaves_budget_for_others",
        ),
    ),
)
