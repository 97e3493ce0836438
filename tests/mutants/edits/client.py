"""Mistakes in the client library."""

from tests.mutants.edit import Edit

CONSUMING = "unit/client/consuming"
PUBLISHING = "unit/gateway/services/test_publishing.py"

EDITS = (
    Edit(
        "no-limit-known-while-detached",
        "engine/client/producing/partition_producer.py::PartitionProducer._add",
        "bytes_max = raw.link.max_message_size if raw is not None else self._bytes_max",
        "bytes_max = raw.link.max_message_size if raw is not None else None",
        (
            "unit/client/producing/test_partition_producer.py::test_a_message_too_large_that_is_sent_while_detached_costs_no_connection",
        ),
        "",
    ),
    Edit(
        "one-chunk-acknowledged-for-all",
        "engine/client/consuming/attachment.py::Attachment.acknowledge",
        "self._acks += self._entries.pop(position, (position,))",
        "self._acks.append(position)",
        (
            f"{CONSUMING}/test_attachment.py::test_a_message_in_chunks_is_answered_by_its_id_alone",
            f"{CONSUMING}/test_dead_letters.py::test_a_message_in_chunks_is_one_dead_letter_and_all_chunks_are_acknowledged",
        ),
        "",
    ),
    Edit(
        "chunks-of-dead-producers-stay",
        "engine/client/consuming/attachment.py::Attachment._check_chunks",
        "self._acks += positions",
        "pass",
        (
            f"{CONSUMING}/test_attachment.py::test_chunks_of_a_message_that_stays_incomplete_are_acknowledged",
        ),
        "",
    ),
    Edit(
        "chunks-given-up-by-age-alone",
        "engine/client/consuming/attachment.py::Attachment._check_chunks",
        "if self._end is not None and self._seen >= self._end[0]:",
        "if self._end is not None:",
        (
            f"{CONSUMING}/test_attachment.py::test_chunks_are_kept_while_the_topic_holds_undelivered_entries",
        ),
        "W2",
    ),
    Edit(
        "what-was-under-way-before-a-new-start-is-given",
        "engine/client/consuming/attachment.py::Attachment._of_present_epoch",
        "if delivered.epoch is None or delivered.epoch >= self._epoch:",
        "if True:",
        (
            f"{CONSUMING}/test_topic_consumer.py::test_messages_in_flight_when_all_are_redelivered_are_discarded",
        ),
        "",
    ),
    Edit(
        "refusals-kept-without-bound",
        "engine/client/consuming/topic_consumer.py::TopicConsumer._refuse",
        "if len(self._refused) > REFUSED_MAX:",
        "if False:",
        (
            f"{CONSUMING}/test_topic_consumer.py::test_messages_refused_that_never_came_are_not_kept_for_long",
        ),
        "",
    ),
    Edit(
        "idle-producer-makes-a-deleted-topic-anew",
        "engine/client/producing/partition_producer.py::PartitionProducer._ended",
        "idle and not self._settings.reattach_when_idle",
        "False",
        (f"{PUBLISHING}::test_a_topic_that_is_deleted_is_not_made_again_by_an_idle_producer",),
    ),
)
