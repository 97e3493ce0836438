"""Mistakes in publishing over HTTP."""

from tests.mutants.edit import Edit

ENCODING = "unit/schema/test_encoding.py"
PRODUCE = "unit/gateway/rest/test_produce.py"
PUBLISHER = "gateway/services/publishing.py::Publisher"
PUBLISHING = "unit/gateway/services/test_publishing.py"

EDITS = (
    Edit(
        "rest-produce-answers-before-the-receipts",
        f"{PUBLISHER}._publish",
        "await receipts.are_complete",
        "await asyncio.sleep(0)",
        (f"{PUBLISHING}::test_a_message_is_reported_stored_when_the_broker_has_confirmed_it",),
        "W6",
    ),
    Edit(
        "rest-produce-tells-a-failure-as-success",
        "gateway/services/publishing.py::failure_of",
        "return (1 if error.retriable else 2), text",
        "return 0, text",
        (f"{PUBLISHING}::test_a_message_without_a_receipt_in_time_is_no_success",),
        "W6",
    ),
    Edit(
        "rest-produce-answers-in-the-order-of-partitions",
        f"{PUBLISHER}.publish",
        "results = [next(by_index[index]) for index in chosen]",
        "results = [one for part in parts for one in part.results]",
        (f"{PUBLISHING}::test_keys_choose_the_partition_and_messages_without_take_turns",),
        "W6",
    ),
    Edit(
        "rest-produce-forgets-the-sequence-ids",
        "gateway/services/publishing.py::_send",
        "any(outgoing.sequence_id is not None for outgoing in run)",
        "not run",
        (f"{PUBLISHING}::test_messages_of_a_name_have_the_sequence_ids_that_were_given",),
    ),
    Edit(
        "shared-producer-stays-for-ever",
        f"{PUBLISHER}._drop",
        "if not self._tasks.closed:",
        "if self._tasks.closed:",
        (f"{PUBLISHING}::test_requests_share_a_producer_that_leaves_when_it_is_idle",),
    ),
    Edit(
        "shared-producer-leaves-while-others-use-it",
        f"{PUBLISHER}._shared_producer",
        "if not shared.users:",
        "if True:",
        (f"{PUBLISHING}::test_a_shared_producer_stays_while_a_request_uses_it",),
        "W6",
    ),
    Edit(
        "idle-producer-makes-a-deleted-topic-anew",
        "engine/client/producing/partition_producer.py::PartitionProducer._ended",
        "idle and not self._settings.reattach_when_idle",
        "False",
        (f"{PUBLISHING}::test_a_topic_that_is_deleted_is_not_made_again_by_an_idle_producer",),
    ),
    Edit(
        "what-is-no-value-is-stored-empty",
        "engine/schema/values/primitive_writing.py::primitive_writer",
        """raise UnencodableError("", f"{text[:80]!r} is no {schema.kind.value}") from None""",
        'return b""',
        (f"{ENCODING}::test_a_text_that_is_no_value_is_refused",),
    ),
    Edit(
        "part-of-a-request-is-published",
        "gateway/rest/produce/views.py::_outgoing",
        """raise InvalidField(f"messages[{index}].{error.path}", error.reason) from None""",
        'payload, key_bytes = b"", None',
        (f"{PRODUCE}::test_a_payload_that_is_none_of_the_schemas_stops_the_whole_request",),
    ),
)
