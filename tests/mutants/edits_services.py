"""Mistakes in what the gateway knows of the whole instance, and in what it shows of it."""

from tests.mutants.edit import Edit

CATALOG = "unit/gateway/services/test_catalog.py"
COLLECTOR = "unit/gateway/services/test_collector.py"
HISTORY = "unit/gateway/services/test_history.py"
INDEX = "unit/gateway/services/index/test_topic_index.py"

EDITS = (
    Edit(
        "bad-record-ends-the-catalog",
        "gateway/services/catalog.py::_recorded",
        "except RecordFormatError as error:",
        "except NotImplementedError as error:",
        (f"{CATALOG}::test_a_record_that_cannot_be_read_costs_its_own_topic_only",),
        "",
    ),
    Edit(
        "legacy-topics-not-listed",
        "gateway/services/catalog.py::counted",
        "for name in sorted(legacy):",
        "for name in sorted(legacy & set(DOMAINS)):",
        (f"{CATALOG}::test_topics_of_legacy_namespaces_are_there_before_anybody_loads_them",),
        "",
    ),
    Edit(
        "failed-catalog-asked-for-ever",
        "gateway/services/collector.py::_caught",
        "except Exception as error:",
        "except FAILURES as error:",
        (f"{COLLECTOR}::test_after_an_unexpected_failure_topics_are_read_again",),
        "",
    ),
    Edit(
        "fresh-although-rounds-fail",
        "gateway/services/collector.py::Collector.heard",
        "min(store_ms, self._succeeded_ms) if failing else store_ms",
        "store_ms",
        (f"{COLLECTOR}::test_what_is_shown_is_as_of_the_last_round_that_succeeded",),
        "",
    ),
    Edit(
        "broker-followed-until-the-first-surprise",
        "gateway/services/collector.py::Collector._follow",
        "except Exception:",
        "except (KeyError, TypeError, ValueError):",
        (f"{COLLECTOR}::test_a_broker_whose_answer_breaks_something_is_followed_on",),
        "",
    ),
    Edit(
        "cluster-dropped-from-a-legacy-name",
        "engine/base/names.py::split_topic",
        '"/".join(namespace)',
        "namespace[-1]",
        (
            f"{INDEX}::test_topics_of_two_namespaces_that_differ_in_the_cluster_only_are_told_apart",
            "unit/base/test_names.py::test_a_name_is_taken_apart_as_it_is_parsed",
        ),
        "",
    ),
    Edit(
        "folder-taken-for-a-namespace",
        "engine/tenancy/nodes.py::_document",
        "if value else None",
        "",
        (
            "unit/tenancy/test_namespaces.py::test_a_node_that_holds_legacy_namespaces_is_no_namespace",
        ),
        "",
    ),
    Edit(
        "unseen-partition-deleted",
        "engine/admin/partitions.py::_delete_partitions",
        "_refuse_unseen(parts, seen)",
        "parts = [part for part in parts if str(part) in seen]",
        (
            "unit/admin/test_partitions.py"
            "::test_a_partition_made_between_look_and_deletion_keeps_all_of_them",
        ),
        "",
    ),
    Edit(
        "room-for-a-claimed-number-of-chunks",
        "gateway/services/rehearsal/opening.py::Opener._chunk",
        "if len(parts) != count or any(number not in parts for number in range(len(parts))):",
        "if parts.keys() != set(range(min(count, 8_000_000))):",
        (
            "unit/gateway/services/rehearsal/test_opening.py"
            "::test_a_claimed_number_of_chunks_takes_no_room",
        ),
        "",
    ),
    Edit(
        "metrics-split-at-carriage-returns",
        "gateway/services/metrics.py::merge",
        'lines = body.split(b"\\n")',
        "lines = body.splitlines()",
        ("unit/gateway/test_numbers.py::test_a_carriage_return_in_a_label_ends_no_line",),
        "",
    ),
    Edit(
        "one-room-for-all-addresses",
        "engine/net/http_client.py::HttpClient.request",
        "self._rooms[head.address]",
        'self._rooms["", 0, False]',
        (
            "unit/net/test_http_client.py"
            "::test_requests_that_one_address_leaves_waiting_hold_up_none_to_another",
        ),
        "",
    ),
    Edit(
        "health-waits-for-the-slowest",
        "gateway/services/brokers.py::health",
        "for answer in asyncio.as_completed(answers):",
        "for answer in answers:",
        (
            "unit/gateway/services/test_brokers.py"
            "::test_one_that_is_well_is_enough_whatever_the_others_do",
        ),
        "",
    ),
    Edit(
        "history-damaged-inside-kept",
        "gateway/services/history/history_file.py::is_damaged",
        "or code & 0xFF in _DAMAGE",
        "",
        (f"{HISTORY}::test_a_file_damaged_inside_is_put_aside_and_readers_follow",),
        "",
    ),
    Edit(
        "readers-stay-with-the-old-history",
        "gateway/services/history/readings.py::_Reader._ask",
        "self._file.inode != present",
        "not present",
        (f"{HISTORY}::test_a_file_damaged_inside_is_put_aside_and_readers_follow",),
        "",
    ),
    Edit(
        "keys-of-an-encrypted-message-hidden",
        "engine/admin/messages.py::_headers",
        "if metadata.encryption_keys:",
        "if False:",
        ("unit/admin/test_messages.py::test_what_opens_an_encrypted_message_is_there",),
        "",
    ),
    Edit(
        "far-time-hides-its-message",
        "engine/wire/texts.py::iso_time",
        "min(max(ms, 0), ISO_MS_MAX)",
        "ms",
        ("unit/admin/test_messages.py::test_a_time_beyond_all_years_is_shown_as_the_last_one",),
        "",
    ),
    Edit(
        "second-of-a-repeated-header-dropped",
        "gateway/http/exchange.py::send_answer",
        "headers += answer.repeated_headers",
        "pass",
        (
            "unit/gateway/http/test_handler.py"
            "::test_a_header_that_is_given_several_times_is_sent_so",
        ),
        "",
    ),
    Edit(
        "feed-deaf-after-redis-was-away",
        "admin_ui/feeds.py::Feed._listen",
        "await asyncio.sleep(LISTEN_AGAIN_S)",
        "return",
        ("unit/admin_ui/test_feeds.py::test_a_feed_listens_again_after_its_layer_failed",),
        "",
    ),
    Edit(
        "part-asked-until-the-first-surprise",
        "gateway/services/health/asking.py::Asker._keep_asking",
        "except Exception as error:",
        "except UnwellError as error:",
        (
            "unit/gateway/services/health/test_asking.py"
            "::test_a_part_whose_question_breaks_is_down_and_asked_again",
        ),
        "",
    ),
)
