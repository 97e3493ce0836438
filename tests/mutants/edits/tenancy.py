"""Mistakes in tenants, namespaces, names of topics and what is made or shown of topics."""

from tests.mutants.edit import Edit

LISTED_TOPICS = "unit/gateway/services/index/test_listed_topics.py"
ONE_KIND = "unit/tenancy/test_one_kind_of_topic.py"
DELETION_TEST = "unit/broker/administration/test_deletion.py"

EDITS = (
    Edit(
        "any-number-of-partitions-is-listed",
        "engine/tenancy/topics.py::partitioned_record",
        "not 0 <= count <= PARTITIONS_READ_MAX",
        "count < 0",
        (
            "unit/tenancy/test_one_kind_of_topic.py"
            "::test_a_record_with_a_number_of_partitions_that_nothing_can_list_is_unreadable",
        ),
    ),
    Edit(
        "a-damaged-namespace-ends-the-list-of-all-bundles",
        "gateway/services/bundles.py::all_readable",
        "except (Failed, RecordFormatError) as error:",
        "except NotFound as error:",
        (
            "unit/gateway/services/test_bundles.py"
            "::test_bundles_of_a_damaged_namespace_are_left_out_of_the_list_of_all",
        ),
    ),
    Edit(
        "new-partitions-without-subscriptions",
        "engine/admin/partitions.py",
        "subscriptions = await _subscriptions(store, brokers, present)",
        "subscriptions = {}",
        (
            "unit/admin/test_partitions.py::test_new_partitions_have_the_subscriptions_at_their_earliest_message",
        ),
    ),
    Edit(
        "cluster-dropped-from-a-legacy-name",
        "engine/base/names.py::split_topic",
        '"/".join(namespace)',
        "namespace[-1]",
        (
            f"{LISTED_TOPICS}::test_topics_of_namespaces_that_differ_in_the_cluster_only_are_distinguished",
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
            "::test_a_partition_created_between_check_and_deletion_prevents_the_deletion",
        ),
        "",
    ),
    Edit(
        "keys-of-an-encrypted-message-hidden",
        "engine/admin/messages.py::_headers",
        "if metadata.encryption_keys:",
        "if False:",
        ("unit/admin/test_messages.py::test_an_encrypted_message_has_the_headers_for_decryption",),
        "",
    ),
    Edit(
        "far-time-hides-its-message",
        "engine/wire/texts.py::iso_time",
        "min(max(ms, 0), ISO_MS_MAX)",
        "ms",
        ("unit/admin/test_messages.py::test_a_time_out_of_range_is_shown_as_the_latest_date",),
        "",
    ),
    Edit(
        "brokers-change-not-forgotten",
        "engine/admin/client.py::AdminClient._forget_changed",
        "if not only_reads(operation, args) and namespace is not None:",
        "if False:",
        (
            "unit/tenancy/test_reads_from_memory.py::test_an_operation_that_failed_is_followed_by_fresh_reads",
        ),
        "C2",
    ),
    Edit(
        "what-does-not-unpack-cannot-be-looked-at",
        "engine/admin/messages.py::message_answer",
        "headers[AS_STORED] = readable(str(error))",
        "raise Failed(str(error)) from error",
        (
            "unit/admin/test_messages.py::test_a_payload_that_does_not_decompress_is_returned_as_stored",
        ),
    ),
    Edit(
        "plain-topic-made-beside-a-partitioned-one",
        "engine/tenancy/topics.py::confirm_plain",
        "if await fresh(store, path).exists(path) is None:",
        "if True:",
        (
            f"{ONE_KIND}::test_in_every_order_of_two_exactly_one_is_made",
            "unit/gateway/services/test_kinds_of_topics.py::test_a_topic_made_by_its_use_gives_way_to_a_partitioned_one_made_meanwhile",
        ),
        "N1",
    ),
    Edit(
        "plain-topic-confirmed-in-spite-of-a-claim",
        "engine/tenancy/topics.py::confirm_plain",
        "if seen and (seen[1] is None or not seen[1][0]):",
        "if seen:",
        (f"{ONE_KIND}::test_in_every_order_of_two_exactly_one_is_made",),
        "N1",
    ),
    Edit(
        "partitioned-topic-outlives-its-namespace",
        "engine/tenancy/topics.py::_confirm_partitioned",
        "if not is_present(policies, nodes[0]):",
        "if False:",
        (f"{ONE_KIND}::test_a_namespace_deleted_meanwhile_holds_neither_kind",),
        "N2",
    ),
    Edit(
        "deleted-tenant-comes-back-empty",
        "engine/tenancy/nodes.py::create_below",
        'await store.create(f"{path}/{last}", _checked_size(path, value))',
        'await store.create(f"{path}/{last}", _checked_size(path, value), make_parents=True)',
        (
            "unit/tenancy/test_parents.py::test_a_tenant_deleted_while_a_namespace_is_made_stays_deleted",
            "unit/tenancy/test_parents.py::test_a_cluster_deleted_while_something_is_made_of_it_stays_deleted",
        ),
    ),
    Edit(
        "schemas-of-the-other-domain-go-too",
        "engine/broker/running.py::Tenancy.forget",
        "topics.kind_of(twin, rows) == (None, False)",
        "True",
        (f"{DELETION_TEST}::test_the_other_domains_topic_of_the_name_keeps_its_schemas",),
    ),
)
