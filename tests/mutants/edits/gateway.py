"""Mistakes in the gateway and the console: WebSocket endpoints, runs, audit, lists, what is known and shown of them."""

from tests.mutants.edit import Edit

ATTEMPTS = "unit/gateway/jobs/test_attempts.py"
CONSUMING = "unit/client/consuming"
FEEDS = "unit/admin_ui/test_feeds.py"
TWO_CLUSTERS = "unit/gateway/clusters/test_two_clusters.py"
RECOVERY = "unit/gateway/jobs/test_recovery.py"
SERVICES = "gateway/jobs/services.py"
SERVERS = "unit/gateway/servers/test_both_servers.py"
WORKER = "unit/gateway/jobs/test_worker.py"
WS = "unit/gateway/ws"
CATALOG = "unit/gateway/services/test_catalog.py"
COLLECTOR = "unit/gateway/services/collection/test_collector.py"
HISTORY = "unit/gateway/services/test_history.py"
INDEX = "unit/gateway/services/index/test_topic_index.py"

EDITS = (
    Edit(
        "one-permit-back-however-often-it-came",
        "gateway/ws/consumer.py::ConsumerEndpoint._receive",
        "free += deliveries",
        "free += 1",
        (
            f"{WS}/test_consumer.py::test_redelivered_messages_use_no_budget_for_good",
            f"{WS}/test_consumer.py::test_permits_are_conserved_in_push_mode",
        ),
        "",
    ),
    Edit(
        "permits-not-given-back",
        "gateway/ws/consumer.py::ConsumerEndpoint._receive",
        "if free and not self._pull:",
        "if free and self._pull:",
        (f"{WS}/test_consumer.py::test_permits_are_conserved_in_push_mode",),
        "W1",
    ),
    Edit(
        "delivery-without-permit",
        "gateway/ws/consumer.py::ConsumerEndpoint.accepted",
        "if not self._pull:",
        "if True:",
        (f"{WS}/test_consumer.py::test_permits_are_conserved_in_pull_mode",),
        "W1",
    ),
    Edit(
        "acknowledged-on-delivery",
        "gateway/ws/consumer.py::ConsumerEndpoint.deliver",
        "delivered(message_id, message.given)",
        """
        delivered(message_id, message.given)
        self.consumer.acknowledge(message.given)
        """,
        (
            f"{WS}/test_consumer.py::test_a_message_is_acknowledged_only_when_the_client_acknowledges_it",
        ),
        "W2",
    ),
    Edit(
        "negative-taken-for-positive",
        "gateway/ws/consumer.py::ConsumerEndpoint._settle",
        "(self.consumer.refuse if answer.negative else self.consumer.acknowledge)(given)",
        "self.consumer.acknowledge(given)",
        (
            f"{WS}/test_consumer.py::test_a_message_is_acknowledged_only_when_the_client_acknowledges_it",
        ),
        "W2",
    ),
    Edit(
        "failure-answered-with-ok",
        "gateway/ws/producer.py::ProducerEndpoint._answer",
        "port.send_text(frames.not_sent(frames.UNKNOWN_ERROR, str(error), token))",
        'port.send_text(frames.sent(b"", token))',
        (
            f"{WS}/test_producer.py::test_an_error_is_answered_by_its_own_context_and_harms_no_other",
        ),
        "W3",
    ),
    Edit(
        "size-of-what-is-pending-unbounded",
        "gateway/ws/producer.py::ProducerEndpoint.__init__",
        "IN_FLIGHT_BYTES_MAX,",
        "1 << 62,",
        (f"{WS}/test_producer.py::test_the_socket_is_not_read_while_too_much_waits",),
        "W4",
    ),
    Edit(
        "no-share-of-the-budget-of-all-sockets",
        "gateway/ws/producer.py::ProducerEndpoint.__init__",
        "share=IN_FLIGHT_BYTES_OWN,",
        "",
        (f"{WS}/test_producer.py::test_messages_that_wait_for_ever_stop_no_other_socket",),
        "W4",
    ),
    Edit(
        "only-payloads-count",
        "gateway/ws/frames.py::parse_message",
        "message.beside_bytes += len(text) - len(payload)",
        "pass",
        (f"{WS}/test_producer.py::test_what_a_message_holds_beside_its_payload_counts",),
        "W4",
    ),
    Edit(
        "bodies-written-to-a-file",
        "gateway/servers/on_daphne.py::_Request.gotLength",
        "self.content = BytesIO()",
        "super().gotLength(length)",
        (f"{SERVERS}::test_a_body_at_the_limit_is_taken_whole_and_stays_in_memory",),
        "W5",
    ),
    Edit(
        "chunked-bodies-without-a-bound",
        "gateway/servers/on_daphne.py::_Channel.rawDataReceived",
        "if not receives or self._handlingRequest:",
        "if True:",
        (f"{SERVERS}::test_a_body_above_the_limit_is_refused_and_not_kept",),
        "W5",
    ),
    Edit(
        "a-lost-socket-counts-for-ever",
        "gateway/servers/websocket.py::SocketConnection.connection_lost",
        'self._sockets.on_lost(self._transport.get_extra_info("peername")[0])',
        "pass",
        (f"{SERVERS}::test_an_address_has_only_so_many_connections",),
        "W5",
    ),
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
        "pings-answered-without-bound",
        "gateway/servers/websocket.py::SocketConnection.pause_writing",
        "self._pause(_UNREAD)",
        "pass",
        (
            "unit/gateway/servers/test_websocket.py::test_a_client_that_reads_no_answers_is_not_read",
        ),
        "W4",
    ),
    Edit(
        "attempts-not-compared",
        f"{SERVICES}::_held",
        "attempt=run.attempt, ",
        "",
        (
            "unit/gateway/jobs/test_late_attempts.py::test_a_late_attempt_changes_nothing_of_the_one_at_work",
        ),
        "J1",
    ),
    Edit(
        "lease-not-compared",
        f"{SERVICES}::_as_read",
        "lease_until_ms=run.lease_until_ms,",
        "",
        (f"{RECOVERY}::test_a_heartbeat_just_before_the_recovery_keeps_the_run",),
        "J1",
    ),
    Edit(
        "files-not-synced",
        "gateway/jobs/outputs.py::seal",
        "_sync(path)",
        "pass",
        (
            "unit/gateway/jobs/test_outputs.py::test_files_are_durable_before_the_row_points_to_them",
        ),
        "J2",
    ),
    Edit(
        "running-attempt-swept",
        "gateway/jobs/outputs.py::_is_leftover",
        "state not in (RunState.RUNNING, RunState.SUCCEEDED)",
        "state is not RunState.SUCCEEDED",
        (
            "unit/gateway/jobs/test_outputs.py::test_a_sweep_keeps_what_counts_and_what_it_does_not_know",
        ),
        "J2",
    ),
    Edit(
        "cancelled-run-succeeds",
        f"{SERVICES}::finish",
        "if _held(run).filter(cancel_requested=False).update(**changes):",
        "if _held(run).update(**changes):",
        (f"{ATTEMPTS}::test_a_cancellation_is_final",),
        "J3",
    ),
    Edit(
        "claimed-twice",
        f"{SERVICES}::claim",
        "attempt=attempt, state=RunState.QUEUED",
        "attempt=attempt",
        (f"{ATTEMPTS}::test_a_message_received_twice_is_processed_once",),
        "J4",
    ),
    Edit(
        "lost-message-not-sent-again",
        f"{SERVICES}::recover",
        "if not enqueue(run_id=run.id, attempt=run.attempt):",
        "if False:",
        (f"{RECOVERY}::test_a_run_whose_message_could_not_be_sent_is_queued_and_done_later",),
        "J4",
    ),
    Edit(
        "outcome-after-the-lease",
        "gateway/jobs/tasks.py::_close",
        "None if heartbeat.lost else services.finish(run=run, state=state, **outcome)",
        "services.finish(run=run, state=state, **outcome)",
        (f"{WORKER}::test_a_worker_that_cannot_renew_its_lease_stops_and_closes_nothing",),
        "J5",
    ),
    Edit(
        "one-attempt-too-many",
        f"{SERVICES}::_worker_lost",
        "if run.attempt >= ATTEMPTS_MAX:",
        "if run.attempt > ATTEMPTS_MAX:",
        (f"{ATTEMPTS}::test_a_run_that_loses_every_worker_fails_in_the_end",),
    ),
    Edit(
        "progress-goes-back",
        f"{SERVICES}::report",
        "held.filter(done__lte=done).update",
        "held.update",
        ("unit/gateway/jobs/test_progress.py::test_progress_never_goes_back",),
    ),
    Edit(
        "change-ends-with-its-request",
        "gateway/http/handler.py::HttpHandler.__call__",
        "await asyncio.shield(change)",
        "await change",
        (
            "unit/gateway/http/test_handler.py::test_a_change_that_has_begun_is_finished_and_audited",
        ),
    ),
    Edit(
        "body-read-beyond-its-bound",
        "gateway/http/exchange.py::_read_rest",
        "while len(body) <= limit:",
        "while True:",
        ("unit/gateway/http/test_handler.py::test_of_a_refused_body_a_bounded_part_is_dropped",),
    ),
    Edit(
        "audit-after-the-change",
        "admin_ui/audit/recording.py::AuditRecorder.__call__",
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
        "audit-keeps-secrets",
        "admin_ui/audit/changed.py::hidden",
        """name: HIDDEN if _SECRET.search(str(name)) and item not in (None, "") else hidden(item)""",
        "name: hidden(item)",
        ("unit/admin_ui/audit/test_audit_changed.py::test_secrets_are_hidden_wherever_they_are",),
    ),
    Edit(
        "grant-replaces-other-roles",
        "engine/tenancy/grants.py::grant",
        "put(policies, (*path, role), actions)",
        "put(policies, path, {role: actions})",
        ("unit/tenancy/test_grants.py::test_concurrent_grants_are_all_kept",),
    ),
    Edit(
        "audit-answers-before-its-commit",
        "admin_ui/audit/audit_writer.py::AuditWriter._write",
        """
        error: Exception | None = None
        try:
            self._commit(entries, [*self._late, *outcomes])
        """,
        """
        error: Exception | None = None
        for job in group:
            job.done.get_loop().call_soon_threadsafe(_finish, [job], error)
        try:
            self._commit(entries, [*self._late, *outcomes])
        """,
        ("unit/gateway/test_audit_first.py::test_a_change_that_cannot_be_recorded_is_not_made",),
    ),
    Edit(
        "page-begins-at-the-first-row",
        "admin_ui/topics/selectors.py::topics",
        "snapshot.select(viewer, chosen).names(offset, offset + limit)",
        "snapshot.select(viewer, chosen).names(0, limit)",
        (
            "unit/gateway/test_console_api.py::test_topics_are_filtered_sorted_and_windowed_on_the_server",
        ),
    ),
    Edit(
        "page-of-any-size",
        "admin_ui/params.py::window",
        "1, limit_max)",
        "1, 1 << 60)",
        ("unit/gateway/test_console_api.py::test_a_wrong_parameter_is_400_and_named",),
    ),
    Edit(
        "feed-of-each-socket-its-own",
        "admin_ui/feeds.py::Feeds.watch",
        "if feed is None:",
        "if True:",
        (f"{FEEDS}::test_watchers_of_equal_parameters_share_one_producer",),
    ),
    Edit(
        "feed-ends-with-its-first-failure",
        "admin_ui/feeds.py::Feed._produce",
        """
        self._fail(error)
        has_changed = True
        """,
        """
        self._fail(error)
        return
        """,
        (f"{FEEDS}::test_a_failing_body_is_reported_once_and_retried",),
    ),
    Edit(
        "feed-outlives-its-watchers",
        "admin_ui/feeds.py::FeedWatch.end",
        "await self.feed.close()",
        "pass",
        (f"{FEEDS}::test_a_producer_runs_until_the_last_watcher_leaves_and_starts_again",),
    ),
    Edit(
        "any-cluster-answered",
        "gateway/clusters/registry.py::Clusters.named",
        "self._by_name.get(name)",
        "self._by_name.get(name, self.default)",
        ("unit/gateway/test_console_api.py::test_a_cluster_that_is_not_served_is_404_and_named",),
    ),
    Edit(
        "rest-of-the-default-cluster",
        "gateway/http/view.py::RestView.dispatch",
        "clusters_for(request).named(served_cluster)",
        "clusters_for(request).default",
        (f"{TWO_CLUSTERS}::test_rest_finds_the_cluster_by_its_path_and_without_one_the_default",),
    ),
    Edit(
        "feed-of-the-default-cluster",
        "admin_ui/live.py::LiveFeed._subscribe",
        'self.clusters.named(params.get("cluster", ""))',
        "self.clusters.default",
        (f"{TWO_CLUSTERS}::test_a_socket_watches_each_cluster_by_its_own_feed",),
    ),
    Edit(
        "history-of-the-default-cluster",
        "gateway/clusters/cluster.py::Cluster.__init__",
        "History(settings.folder)",
        "History(settings.data_dir)",
        (f"{TWO_CLUSTERS}::test_history_is_that_of_the_cluster_alone",),
    ),
    Edit(
        "preview-confirms-in-another-cluster",
        "admin_ui/confirming.py::read",
        '{**about, "cluster": cluster}',
        "about",
        (
            "unit/admin_ui/test_subscriptions.py::test_a_token_is_of_one_change_of_one_user_and_for_a_while",
        ),
    ),
    Edit(
        "websocket-of-the-default-cluster",
        "gateway/ws/routing.py::_cluster",
        "clusters_of(scope).named(name)",
        "clusters_of(scope).default",
        ("unit/gateway/ws/test_producer.py::test_a_path_names_the_cluster_that_is_published_to",),
    ),
    Edit(
        "policies-cached-for-ever",
        "engine/broker/control/catalog.py::Catalog._known_of",
        "self._store.watch(path, lambda _: self._forget(name, entry))",
        "self._store.watch(path, lambda _: None)",
        (
            "unit/broker/control/test_policies_cache.py::test_changed_policies_are_read_again_and_reported",
        ),
    ),
    Edit(
        "policies-read-before-the-change-cached",
        "engine/broker/control/catalog.py::Catalog._known_of",
        "if entry.stale or name in self._known:",
        "if name in self._known:",
        (
            "unit/broker/control/test_policies_cache.py::test_policies_that_change_while_they_are_read_are_not_kept",
        ),
    ),
    Edit(
        "stop-under-a-spawn-not-told",
        "gateway/standalone/supervisor.py::ChildProcess._run_once",
        """
        if self._stop_requested:
            self._terminate()
        """,
        "pass",
        ("unit/gateway/standalone/test_orders.py::test_the_last_order_holds_at_every_turn",),
    ),
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
        (f"{CATALOG}::test_topics_of_legacy_namespaces_are_listed_before_they_are_loaded",),
        "",
    ),
    Edit(
        "failed-catalog-asked-for-ever",
        "gateway/services/collection/stored_topics.py::_caught",
        "except Exception as error:",
        "except FAILURES as error:",
        (f"{COLLECTOR}::test_after_an_unexpected_failure_topics_are_read_again",),
        "",
    ),
    Edit(
        "fresh-although-rounds-fail",
        "gateway/services/collection/collector.py::Collector.known_until",
        "min(store_ms, self._succeeded_ms) if failing else store_ms",
        "store_ms",
        (f"{COLLECTOR}::test_shown_numbers_are_those_of_the_last_successful_round",),
        "",
    ),
    Edit(
        "broker-followed-until-the-first-surprise",
        "gateway/services/feeds/row_follower.py::RowFollower.run",
        "except Exception:",
        "except (KeyError, TypeError, ValueError):",
        (
            "unit/gateway/services/feeds/test_row_follower.py"
            "::test_an_answer_in_an_unknown_form_is_followed_by_a_request_for_all_rows",
        ),
        "",
    ),
    Edit(
        "cluster-dropped-from-a-legacy-name",
        "engine/base/names.py::split_topic",
        '"/".join(namespace)',
        "namespace[-1]",
        (
            f"{INDEX}::test_topics_of_namespaces_that_differ_in_the_cluster_only_are_distinguished",
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
        "room-for-a-claimed-number-of-chunks",
        "gateway/services/rehearsal/opening.py::EntryOpener._chunk",
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
        "self._slots[head.address]",
        'self._slots["", 0, False]',
        (
            "unit/net/test_http_client.py"
            "::test_pending_requests_to_one_address_do_not_delay_another",
        ),
        "",
    ),
    Edit(
        "health-waits-for-the-slowest",
        "gateway/services/admin/brokers.py::health",
        "for failure in asyncio.as_completed(failures):",
        "for failure in failures:",
        (
            "unit/gateway/services/test_brokers.py"
            "::test_one_healthy_broker_suffices_whatever_the_others_do",
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
        "gateway/services/history/readings.py::History._read",
        "self._file.inode != inode",
        "not inode",
        (f"{HISTORY}::test_a_file_damaged_inside_is_put_aside_and_readers_follow",),
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
        "gateway/services/health/checks.py::Checks._run_checks",
        "except Exception as error:",
        "except UnwellError as error:",
        (
            "unit/gateway/services/health/test_checks.py"
            "::test_a_part_whose_check_breaks_is_down_and_checked_again",
        ),
        "",
    ),
    Edit(
        "numbers-are-awaited-on-any-event-loop",
        "gateway/services/collection/collector.py::Collector.snapshot",
        "self._link.check_loop()",
        "pass",
        (
            "unit/gateway/services/collection/test_collector.py::"
            "test_a_snapshot_awaited_on_another_loop_fails_at_once",
        ),
    ),
    Edit(
        "a-subscription-deleted-on-some-partitions-is-deleted",
        "admin_ui/subscriptions/deletion.py::_result",
        "len(done) == len(parts)",
        "bool(done)",
        (
            "unit/admin_ui/test_subscription_deletion.py::test_a_partly_done_deletion_is_reported_by_partition",
        ),
    ),
    Edit(
        "partitions-are-not-asked-before-a-deletion",
        "admin_ui/subscriptions/deletion.py::apply",
        'if all(result["done"] for result in results):',
        "if True:",
        (
            "unit/admin_ui/test_subscription_deletion.py::test_nothing_is_deleted_when_one_partition_refuses",
        ),
    ),
    Edit(
        "a-subscription-made-since-is-left-behind",
        "admin_ui/subscriptions/deletion.py::apply",
        "await _check_missing(engine, subscription, parts, set(seen))",
        "pass",
        (
            "unit/admin_ui/test_subscription_deletion.py::test_a_subscription_created_on_a_partition_since_the_preview_is_a_conflict",
        ),
    ),
)
