"""Mistakes in the console: the audit log, pushed changes, moves of bundles and loads of brokers."""

from tests.mutants.edit import Edit

CLUSTER = "unit/admin_ui/test_cluster_pages.py"
CHAIN = "unit/admin_ui/audit/test_chain.py"

EDITS = (
    Edit(
        "audit-after-the-change",
        "admin_ui/audit/recording.py::AuditRecorder._handle_recorded",
        """
        try:
            await writer.begin(entry)
        except NotRecordedError:
            return JsonResponse({"reason": _REFUSAL}, status=503)
        request.audit_id = entry.request_id
        with account.opened() as accounted:
            answer = await self._get_response(request)
        """,
        """
        request.audit_id = entry.request_id
        with account.opened() as accounted:
            answer = await self._get_response(request)
        try:
            await writer.begin(entry)
        except NotRecordedError:
            return JsonResponse({"reason": _REFUSAL}, status=503)
        """,
        ("unit/gateway/test_audit_first.py::test_a_change_that_cannot_be_recorded_is_not_made",),
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
        "audit-log-grows-without-bound",
        "admin_ui/audit/audit_writer.py::AuditWriter._prune",
        "row[1] < before_ms or row[0] < keep_from",
        "row[1] < before_ms and row[0] < keep_from",
        ("unit/gateway/test_audit_first.py::test_old_entries_are_removed_in_parts_and_no_others",),
    ),
    Edit(
        "one-entry-hides-its-page-of-the-audit-log",
        "admin_ui/audit/changed.py::_number",
        "return number if isfinite(number) else text",
        "return number",
        ("unit/admin_ui/audit/test_audit_changed.py::test_numbers_outside_json_are_shown_as_text",),
    ),
    Edit(
        "digest-of-a-link-does-not-depend-on-the-one-before",
        "admin_ui/audit/chain.py::ChainedRecord.digest",
        "[before, self.kind,",
        "[self.kind,",
        (f"{CHAIN}::test_a_link_that_was_made_for_a_changed_entry_does_not_fit_the_next",),
    ),
    Edit(
        "outcome-is-not-chained",
        "admin_ui/audit/audit_writer.py::AuditWriter._commit",
        "links += [outcome_link(*outcome) for outcome in outcomes]",
        "pass",
        (f"{CHAIN}::test_entries_and_outcomes_of_all_gateways_are_one_chain",),
    ),
    Edit(
        "removal-of-old-entries-is-not-chained",
        "admin_ui/audit/chain.py::remove_links",
        "[removal_link(base)]",
        "[]",
        (f"{CHAIN}::test_the_chain_goes_on_behind_removed_entries",),
    ),
    Edit(
        "inserted-entry-is-not-noticed",
        "admin_ui/audit/verifying.py::_Walk.check_entries",
        "if key not in self._chained:",
        "if False:",
        (f"{CHAIN}::test_an_inserted_entry_is_named",),
    ),
    Edit(
        "console-unload-only-is-a-move",
        "admin_ui/cluster/services.py::transfer",
        '"moved": result["moved"],',
        '"moved": True,',
        (f"{CLUSTER}::test_a_transfer_that_only_unloads_is_no_move",),
    ),
    Edit(
        "console-transfer-ignores-isolation",
        "admin_ui/cluster/services.py::preview_transfer",
        "elif is_allowed is False:",
        "elif False:",
        (f"{CLUSTER}::test_a_transfer_names_why_a_broker_cannot_receive_the_bundle",),
    ),
    Edit(
        "unusable-load-is-shown",
        "engine/ownership/load/report_rows.py::report_rows",
        '"load": None if why else report.usage,',
        '"load": report.usage,',
        (
            "unit/ownership/load/test_report_rows.py::"
            "test_a_load_that_cannot_be_used_is_unknown_and_says_why",
        ),
    ),
)
