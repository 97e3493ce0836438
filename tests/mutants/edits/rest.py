"""Mistakes in the REST interface, tenancy and the audit log."""

from tests.mutants.edit import Edit

RECORDING = "unit/admin_ui/audit/test_recording.py"
BOUNDARIES = "unit/ownership/test_boundaries.py"
AGAIN = "unit/gateway/services/test_namespace_made_again.py"
ONE_KIND = "unit/tenancy/test_one_kind_of_topic.py"
BODIES = "unit/gateway/http/test_json_bodies.py"
HOSTILE = "unit/gateway/rest/test_hostile_bodies.py"

EDITS = (
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
        "truncation-heeds-retention",
        "engine/broker/administration/operations/topics.py::TopicOperations.truncate",
        "await topic.log.trim(retention=False)",
        "await topic.log.trim()",
        (
            "unit/gateway/services/test_truncated_topics.py::test_truncating_leaves_the_open_ledger_and_no_backlog",
        ),
    ),
    Edit(
        "audit-log-grows-without-bound",
        "admin_ui/audit/audit_writer.py::AuditWriter._prune",
        "row[1] < before_ms or row[0] < keep_from",
        "row[1] < before_ms and row[0] < keep_from",
        ("unit/gateway/test_audit_first.py::test_old_entries_are_removed_in_parts_and_no_others",),
    ),
    Edit(
        "runs-under-way-lose-their-files",
        "gateway/jobs/outputs.py::prune",
        "over = JobRun.objects.filter(state__in=OVER)",
        "over = JobRun.objects.all()",
        (
            "unit/gateway/jobs/test_outputs.py::test_old_runs_are_deleted_with_their_files_and_others_stay",
        ),
    ),
    Edit(
        "namespace-made-again-loses-its-bundles",
        "engine/ownership/owner.py::BundleOwnership._recheck",
        """
        with suppress(NoNamespaceError):
            fresh = await self._read_bundles(namespace, path)
        """,
        "pass",
        (f"{BOUNDARIES}::test_bundles_of_a_recreated_namespace_stay_owned",),
    ),
    Edit(
        "bundle-served-until-its-node-is-removed",
        "engine/ownership/owner.py::BundleOwnership._recheck",
        """
        self._lose(removed, "its boundaries are gone")
        if fresh is None:
            self._forget(namespace)
        for bundle in removed:
            await self._clean_up(bundle)
        """,
        """
        for bundle in removed:
            await self._remove_node(bundle)
        self._lose(removed, "its boundaries are gone")
        if fresh is None:
            self._forget(namespace)
        """,
        (f"{BOUNDARIES}::test_a_bundle_acquired_again_during_its_removal_is_kept",),
    ),
    Edit(
        "boundaries-outlive-their-namespace",
        "engine/ownership/owner.py::BundleOwnership._policies",
        """if decode_json(value, f"policies of {namespace}").get("deleted"):""",
        "if False:",
        (f"{BOUNDARIES}::test_no_boundaries_are_stored_for_a_namespace_being_deleted",),
    ),
    Edit(
        "lost-race-with-an-unload-told-to-the-caller",
        "engine/rpc/client.py::RpcClient.call",
        "(*LOOK_UP_AGAIN_S, None)",
        "(None,)",
        (f"{AGAIN}::test_only_requests_refused_before_any_change_are_repeated",),
    ),
    Edit(
        "topic-made-and-refused-as-not-served",
        "engine/broker/administration/operations/topics.py::TopicOperations._load_created",
        """
        except NotServedHere:
            with suppress(MovedError):
                await self._topics.check_owned(name)
        """,
        """
        except NotServedHere:
            raise
        """,
        (
            f"{AGAIN}::test_a_topic_whose_bundle_is_lost_while_it_is_made_is_loaded_when_it_is_taken_again",
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
        "claim-made-the-record-without-another-look",
        "engine/tenancy/topics.py::create_partitioned",
        """
        if await topic_exists(fresh(store, ledger_path(topic)), topic):
            raise AlreadyExists(EXISTS)
        """,
        "pass",
        (f"{ONE_KIND}::test_in_every_order_of_two_exactly_one_is_made",),
        "N1",
    ),
    Edit(
        "claim-is-not-withdrawn",
        "engine/tenancy/topics.py::confirm_plain",
        """
        await store.delete(path, stat.version)
        return
        """,
        "return",
        (f"{ONE_KIND}::test_in_every_order_of_two_exactly_one_is_made",),
        "N1",
    ),
    Edit(
        "partitioned-topic-outlives-its-namespace",
        "engine/tenancy/topics.py::create_partitioned",
        "await require_namespace(fresh(store, paths.namespace_policies(str(topic.namespace))), topic)",
        "pass",
        (f"{ONE_KIND}::test_a_namespace_deleted_meanwhile_holds_neither_kind",),
        "N2",
    ),
    Edit(
        "dead-letters-of-a-partition-made-partitioned",
        "engine/broker/control/catalog.py::Catalog.partitions",
        "topics.is_partitionable(topic)",
        "topic.partition < 0",
        (
            "unit/gateway/services/test_kinds_of_topics.py::test_a_name_with_a_partition_inside_can_be_made_by_its_use",
        ),
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
        "change-of-unknown-outcome-may-be-tried-again",
        "gateway/http/errors.py::describe",
        "advice = LOOK_FIRST if changing else TRY_AGAIN",
        "advice = TRY_AGAIN",
        (
            "unit/gateway/test_errors.py::test_a_change_without_an_answer_is_reported_as_of_unknown_outcome",
        ),
    ),
    Edit(
        "path-decides-what-is-recorded",
        "gateway/http/view.py::RestView.may_change",
        "return request.method in CHANGING_METHODS and request.method not in cls.reading_methods",
        'return request.method in CHANGING_METHODS and not request.path_info.endswith("/backlogSize")',
        (f"{RECORDING}::test_every_route_records_changes_and_only_the_listed_reads_are_left_out",),
    ),
    Edit(
        "preview-is-asked-for-of-any-view",
        "admin_ui/audit/recording.py::is_change",
        "return view.may_change(request) if view is not None else request.method in CHANGING_METHODS",
        """
        return b'"preview": true' not in request.body and (
            view.may_change(request) if view is not None else True
        )
        """,
        (f"{RECORDING}::test_names_that_look_like_a_read_only_call_hide_no_change",),
    ),
    Edit(
        "number-that-is-not-finite-is-taken",
        "gateway/http/json_bodies.py::_finite",
        "if not isfinite(number):",
        "if number != number:",
        (
            f"{BODIES}::test_what_could_not_be_stored_or_means_two_things_is_refused_by_name",
            f"{HOSTILE}::test_a_number_that_is_not_finite_is_refused_and_stored_nowhere",
        ),
    ),
    Edit(
        "half-a-character-is-taken",
        "gateway/http/json_bodies.py::decode_body",
        """if "\\\\u" in text and not _can_be_encoded(value):""",
        "if False:",
        (f"{HOSTILE}::test_half_a_character_is_refused_by_its_field",),
    ),
    Edit(
        "one-entry-hides-its-page-of-the-audit-log",
        "admin_ui/audit/changed.py::_number",
        "return number if isfinite(number) else text",
        "return number",
        ("unit/admin_ui/audit/test_audit_changed.py::test_numbers_outside_json_are_shown_as_text",),
    ),
    Edit(
        "one-address-may-have-all-connections-of-a-private-port",
        "engine/net/http.py::HttpServer",
        "per_address_max=per_address_max",
        "per_address_max=0",
        ("unit/broker/test_service.py::test_one_address_leaves_room_on_the_private_port",),
    ),
)
