"""Checks 1 to 56: authentication, authorization, malformed input and exhaustion at the broker and REST."""

from tests.security.check import Check

ACCESS = "unit/access"
AUTH = "unit/auth"
AUTHORIZED = "unit/broker/test_authorized_broker.py"
BOUNDS = "interop/test_bounds.py"
CALLERS = "unit/gateway/http/auth/test_callers.py"
CERTIFICATES = "security/broker/test_certificates.py"
CONNECTIONS = "security/broker/test_connections.py"
ENGINE = f"{ACCESS}/test_engine_matrix.py"
EVALUATOR = f"{AUTH}/authorization/test_evaluator.py"
FRAMES = "interop/test_bad_input.py"
GATEWAY = f"{ACCESS}/test_permission_matrix.py"
HANDLER = "unit/gateway/http/test_handler.py"
HANDSHAKE = "unit/net/test_handshake.py"
JUDGED = "unit/gateway/http/auth/test_judged_calls.py"
KEPT = "security/broker/test_credentials_kept.py"
OPENINGS = f"{ACCESS}/test_socket_doors.py"
PROXY = "unit/proxy"
REVOKED = "unit/broker/test_revocation.py"
ROLES = f"{AUTH}/test_authentication.py"
ROUTING = "unit/net/test_routing.py"
TOKEN_IDS = "unit/tenancy/access/test_revoked_tokens.py"
TOKENS = "security/broker/test_tokens.py"
VALUES = "unit/gateway/rest/test_hostile_values.py"

IDENTITY = (
    Check(
        1,
        "A token with the algorithm none in any case, with and without a signature (CVE-2021-22160)",
        "refused",
        (f"{TOKENS}::test_a_token_without_a_signature_is_refused",),
    ),
    Check(
        2,
        "A token signed by HMAC with the public key as PEM, PKCS#1, DER, SSH or JWK",
        "refused: the key decides the algorithms",
        (
            f"{TOKENS}::test_the_public_key_in_no_form_is_a_secret",
            f"{TOKENS}::test_one_key_has_no_algorithms_of_another_kind",
        ),
    ),
    Check(
        3,
        "A header whose kid is a path or SQL, or whose jku, x5u or jwk is the attacker's",
        "refused without access to a file or the network",
        (f"{TOKENS}::test_a_header_leads_to_no_key_file_or_address",),
    ),
    Check(
        4,
        "A token that has ended or is not valid yet, or whose times are no numbers",
        "refused; a time of issue counts at issuers' tokens alone, as with Apache",
        (
            f"{TOKENS}::test_a_time_that_is_over_to_come_or_no_time_refuses_the_token",
            f"{AUTH}/authenticators/test_oidc_provider.py::test_a_bad_token_is_refused",
        ),
    ),
    Check(
        5,
        "A session goes on after its token, also through a proxy (CVE-2023-31007)",
        "asked for new credentials, disconnected 5 s after the end",
        (
            f"{HANDSHAKE}::test_a_client_that_does_not_answer_is_disconnected",
            f"{HANDSHAKE}::test_a_client_that_cannot_renew_is_disconnected_at_the_expiry",
            f"{HANDSHAKE}::test_forwarded_credentials_that_the_broker_checked_are_the_ones_renewed",
            "interop/identity/test_rights.py::test_a_client_whose_token_ends_is_disconnected",
            f"{PROXY}/test_identity.py::test_a_copied_connection_ends_with_the_credentials",
        ),
    ),
    Check(
        6,
        "Another audience or issuer; a subject that is missing, no text, too long or looks like another",
        "refused, or a role without any of the other's rights; of a list the first text counts, as with Apache",
        (
            f"{TOKENS}::test_a_token_for_another_audience_is_refused",
            f"{TOKENS}::test_a_subject_that_is_no_role_refuses_the_token",
            f"{TOKENS}::test_a_role_that_looks_like_another_has_none_of_its_rights",
        ),
    ),
    Check(
        7,
        "An encrypted token whose payload inflates to gigabytes",
        "refused uninflated",
        (f"{TOKENS}::test_an_encrypted_token_is_refused_before_it_is_inflated",),
    ),
    Check(
        8,
        "A command before CONNECT; CONNECT twice with another identity",
        "connection closed",
        (
            f"{FRAMES}::test_invalid_input_before_connect_closes_the_connection",
            f"{FRAMES}::test_invalid_input_after_connect_closes_the_connection",
            "fuzz/identity/test_handshakes.py::test_only_accepted_credentials_connect_in_any_order_of_commands",
        ),
    ),
    Check(
        9,
        "AUTH_RESPONSE that answers nothing, or is repeated",
        "without effect: late answers of honest clients are such, so the connection stays as it was",
        (
            f"{HANDSHAKE}::test_unsolicited_auth_responses_are_ignored",
            f"{HANDSHAKE}::test_wrong_answers_end_the_connection",
            "fuzz/identity/test_handshakes.py::test_only_accepted_credentials_connect_in_any_order_of_commands",
        ),
    ),
    Check(
        10,
        "A client names another as the one it acts for; a proxy names none, or a superuser (CVE-2023-30429)",
        "refused; both roles need each right",
        (
            f"{ROLES}::test_roles_that_do_not_go_together_are_refused",
            f"{ENGINE}::test_a_proxy_gives_its_client_no_command",
            f"{ENGINE}::test_a_proxy_gives_its_client_no_operation",
            f"{GATEWAY}::test_a_proxy_and_its_client_both_need_the_right_by_http",
            f"{PROXY}/test_identity.py::test_a_client_cannot_name_another_client",
            f"{ACCESS}/test_proxy_matrix.py::test_a_copied_connection_has_the_rights_of_its_client",
        ),
    ),
    Check(
        11,
        "A client's certificate that is untrusted, over, to come, for servers alone, or names a role as a host",
        "refused in the handshake, no role by other names; there are no lists of revoked ones, as with Apache",
        (
            f"{CERTIFICATES}::test_a_bad_certificate_of_a_client_ends_the_handshake",
            f"{CERTIFICATES}::test_the_alternative_names_of_a_certificate_give_no_role",
        ),
    ),
    Check(
        12,
        "Clear text at a port with TLS; old versions; ciphers without a key or name; renegotiation",
        "refused",
        (
            f"{CERTIFICATES}::test_bytes_in_clear_end_the_handshake",
            f"{CERTIFICATES}::test_old_versions_are_refused_in_the_handshake",
            f"{CERTIFICATES}::test_weak_ciphers_are_refused_in_the_handshake",
            f"{CERTIFICATES}::test_renegotiation_and_compression_are_off",
            "unit/net/test_start_tls.py::test_bytes_in_clear_behind_the_request_end_the_connection",
        ),
    ),
    Check(
        13,
        "A server with a certificate for another host waits for our credentials (CVE-2022-33681, CVE-2022-33682)",
        "no byte of a credential is sent",
        (
            f"{KEPT}::test_an_impostor_receives_no_byte",
            f"{KEPT}::test_a_client_in_tls_sends_nothing_to_a_server_in_clear",
            f"{CERTIFICATES}::test_a_server_for_another_host_is_refused",
            "unit/ledger/test_start_tls.py::test_a_client_that_cannot_verify_or_be_verified_writes_nothing",
        ),
    ),
    Check(
        14,
        "A server with an untrusted certificate in place of a broker or issuer (CVE-2022-33683, CVE-2022-33684)",
        "connection refused",
        (
            f"{KEPT}::test_an_impostor_receives_no_byte",
            f"{CERTIFICATES}::test_a_server_with_a_bad_certificate_is_refused",
        ),
    ),
    Check(
        15,
        "Signatures whose first or last byte is wrong are timed (CVE-2023-51437)",
        "compared as a whole, in a time that does not depend on the place",
        (
            f"{TOKENS}::test_a_signature_is_compared_in_a_time_that_does_not_depend_on_it",
            f"{AUTH}/test_internal_token.py::test_only_the_whole_token_matches",
        ),
    ),
    Check(
        16,
        "A session goes on after its role was taken its rights, or after its token was revoked",
        "closed within a second; a revoked token is refused, in each form of its text",
        (
            f"{REVOKED}::test_a_revoked_producer_is_closed_and_refused",
            "unit/gateway/ws/test_admission.py::test_a_socket_ends_with_its_credentials",
            "unit/gateway/ws/test_admission.py::test_a_socket_ends_when_its_token_is_revoked",
            f"{AUTHORIZED}::test_a_revoked_token_is_refused_and_its_connections_end",
            f"{CALLERS}::test_a_revoked_token_is_refused_at_once_although_it_was_verified_before",
            f"{TOKEN_IDS}::test_another_form_of_the_same_signature_has_the_same_id",
        ),
    ),
    Check(
        17,
        "Credentials in settings, headers and commands are looked for in logs and answers (CVE-2025-30677)",
        "masked or absent",
        (
            "interop/identity/test_secure_instance.py::test_no_secret_is_in_a_log_a_command_line_or_an_answer",
            f"{ROLES}::test_the_reason_of_a_refusal_is_logged_without_the_credentials",
            "unit/broker/control/test_dynamic_settings.py::test_a_secret_is_shown_by_no_report_of_settings",
            "unit/admin_ui/audit/test_audit_changed.py::test_secrets_are_hidden_wherever_they_are",
        ),
    ),
    Check(
        18,
        "An unknown user and a wrong password are compared, and guessed at speed",
        "one text and one cost; a few are checked at a time and more are refused",
        (
            f"{AUTH}/authenticators/test_basic_provider.py::test_an_unknown_user_costs_as_much_as_a_known_one",
            f"{AUTH}/authenticators/test_basic_provider.py::test_too_many_checks_at_a_time_are_refused",
        ),
    ),
)

RIGHTS = (
    Check(
        19,
        "A role that may only produce or consume changes policies of a topic (CVE-2024-28098)",
        "403",
        (
            f"{GATEWAY}::test_each_call_of_rest_is_open_to_those_who_have_apaches_need",
            f"{ENGINE}::test_an_operation_is_open_to_those_who_have_its_need",
        ),
    ),
    Check(
        20,
        "The same roles unload, compact, split, or change subscriptions and properties (CVE-2024-29834)",
        "403",
        (
            f"{GATEWAY}::test_each_call_of_rest_is_open_to_those_who_have_apaches_need",
            f"{GATEWAY}::test_each_call_of_the_console_is_open_to_those_who_have_its_need",
            f"{ENGINE}::test_an_operation_is_open_to_those_who_have_its_need",
        ),
    ),
    Check(
        21,
        "Every command, operation, path, page, channel and socket as each kind of caller",
        "the expected answer; what has no row fails",
        (
            f"{ENGINE}::test_a_command_is_open_to_those_who_have_its_need",
            f"{ENGINE}::test_each_command_that_a_client_may_send_has_a_row",
            f"{ENGINE}::test_an_operation_is_open_to_those_who_have_its_need",
            f"{GATEWAY}::test_each_call_of_rest_is_open_to_those_who_have_apaches_need",
            f"{GATEWAY}::test_each_call_of_the_console_is_open_to_those_who_have_its_need",
            f"{GATEWAY}::test_each_channel_is_open_to_those_who_have_its_need",
            f"{GATEWAY}::test_each_endpoint_opens_for_those_who_have_its_need",
        ),
    ),
    Check(
        22,
        "A message by the ledger of another topic (CVE-2021-41571)",
        "404",
        (
            "security/broker/test_foreign_messages.py::test_a_ledger_of_another_topic_holds_no_message_of_this_one",
            "security/broker/test_foreign_messages.py::test_entries_before_a_position_of_another_topic_are_this_topics",
        ),
    ),
    Check(
        23,
        "A request by REST whose headers name another role (CVE-2023-30428)",
        "refused unless the caller is a proxy; both roles are judged",
        (
            f"{JUDGED}::test_a_proxy_gives_its_client_no_right_and_none_names_itself_another",
            f"{JUDGED}::test_a_header_spelled_with_underscores_names_no_client_of_a_proxy",
            f"{ROLES}::test_a_caller_by_http_may_name_itself",
        ),
    ),
    Check(
        24,
        "The configuration of another tenant's source or sink (CVE-2023-37579)",
        "refused",
        (
            f"{ACCESS}/test_rest_rights.py::test_missing_and_disabled_calls_need_an_authenticated_caller",
        ),
        "There are no functions, sources and sinks.",
    ),
    Check(
        25,
        "A role with a grant publishes to the cluster's own topics",
        "refused to all but administrators",
        (f"{EVALUATOR}::test_a_grant_to_publish_is_none_to_set_policies",),
    ),
    Check(
        26,
        "A pattern or a list names topics of other namespaces",
        "what the caller may list alone",
        (
            f"{ENGINE}::test_a_command_on_a_foreign_or_missing_topic_has_one_answer",
            f"{ENGINE}::test_the_topics_of_all_namespaces_are_listed_to_superusers_alone",
            f"{ACCESS}/test_what_viewers_see.py::test_no_body_for_a_viewer_names_what_it_does_not_see",
        ),
    ),
    Check(
        27,
        "A forbidden and a missing topic are compared",
        "the same answer",
        (
            f"{ENGINE}::test_a_command_on_a_foreign_or_missing_topic_has_one_answer",
            f"{ENGINE}::test_an_operation_on_a_foreign_or_missing_topic_has_one_answer",
            f"{JUDGED}::test_a_refusal_is_the_same_whether_what_it_names_exists",
        ),
    ),
    Check(
        28,
        "A client stays after its right was revoked",
        "closed within a second",
        (
            f"{REVOKED}::test_a_revoked_producer_is_closed_and_refused",
            f"{REVOKED}::test_a_revoked_consumer_receives_nothing_more",
            f"{REVOKED}::test_a_revoked_watcher_is_suspended_and_nothing_else_of_its_connection",
            "unit/gateway/ws/test_admission.py::test_a_socket_ends_when_its_client_loses_the_right",
            "unit/gateway/http/auth/test_live_rights.py::test_channels_follow_the_rights_of_the_client",
        ),
    ),
    Check(
        29,
        "A dead letter topic of another tenant",
        "needs the right to produce there",
        (
            f"{OPENINGS}::test_a_dead_letter_topic_needs_the_right_to_produce_there",
            f"{GATEWAY}::test_each_endpoint_opens_for_those_who_have_its_need",
        ),
    ),
    Check(
        30,
        "Commands and acknowledgements with another tenant's transaction",
        "refused",
        (
            "unit/broker/connection/test_transactions.py::test_another_role_cannot_use_a_transaction",
            f"{BOUNDS}::test_unsupported_fields_of_a_send_are_refused_one_by_one",
        ),
    ),
    Check(
        31,
        "Commands with the ids of another connection's consumer or producer",
        "without effect; a message ends the connection",
        (
            f"{CONNECTIONS}::test_the_ids_of_another_connection_mean_nothing",
            f"{CONNECTIONS}::test_a_message_of_another_connections_producer_ends_the_connection",
        ),
    ),
    Check(
        32,
        "The name of another's producer, to fence it or to advance its sequence",
        "needs the right to produce on that very topic",
        (
            f"{CONNECTIONS}::test_the_name_of_a_producer_gives_a_role_without_the_right_nothing",
            f"{CONNECTIONS}::test_the_name_of_a_producer_elsewhere_is_another_producer",
        ),
    ),
    Check(
        33,
        "Names with .., slashes, NUL, lines, marks of direction, or of 64 KiB",
        "refused, nothing is created; in a topic's own part characters are encoded and quoted, as with Apache",
        (
            f"{VALUES}::test_a_tenant_or_namespace_of_a_hostile_name_is_not_created",
            f"{VALUES}::test_a_topic_of_a_hostile_name_is_not_created",
            f"{FRAMES}::test_invalid_names_are_refused_with_an_error",
            f"{EVALUATOR}::test_a_name_is_no_path_to_another_namespace",
            "unit/base/test_names.py::test_every_local_name_survives_its_metadata_path",
            "unit/base/test_log.py::test_a_record_is_one_line_whatever_it_names",
        ),
    ),
    Check(
        34,
        "A schema of a topic without a right; one that is recursive or of many megabytes",
        "refused",
        (
            "unit/broker/test_foreign_resources.py::test_the_schema_of_a_foreign_topic_is_neither_shown_nor_changed",
            "interop/test_bad_schemas.py::test_invalid_definitions_are_refused_and_the_connection_stays_open",
            "interop/test_bad_schemas.py::test_a_definition_of_a_megabyte_is_stored_and_one_that_is_too_long_is_refused",
            "unit/schema/test_hostile_definitions.py::test_the_work_of_a_comparison_is_bounded",
        ),
    ),
    Check(
        35,
        "Force a deletion, clear a backlog or skip without the right",
        "403",
        (
            f"{ENGINE}::test_an_operation_is_open_to_those_who_have_its_need",
            "unit/broker/test_foreign_resources.py::test_an_operation_on_a_subscription_of_others_is_refused",
        ),
    ),
    Check(
        36,
        "Connect to a bookie or the metadata server; write with a wrong password of a ledger",
        "bookies refuse strangers and wrong passwords; the metadata server listens on loopback",
        (
            "unit/bookie/requests/test_strangers.py::test_a_client_without_an_authorized_role_is_refused_in_both_protocols",
            "unit/bookie/requests/test_strangers.py::test_a_client_in_clear_is_refused",
            f"{FRAMES}::test_an_add_and_a_fence_with_a_wrong_ledger_key_are_refused",
            "unit/base/test_addresses.py::test_other_addresses_need_authentication_or_permission",
            "unit/metadata/server/test_settings.py::test_an_open_listener_needs_consent",
        ),
    ),
    Check(
        37,
        "A proxy is asked to reach any host (CVE-2022-24280)",
        "refused unless it is a registered broker's address; a broker does not read the address in CONNECT",
        (
            f"{PROXY}/test_copying.py::test_a_target_that_is_no_broker_is_refused",
            f"{PROXY}/test_known_brokers.py::test_either_advertised_address_names_the_broker",
        ),
    ),
    Check(
        38,
        "Metrics, statistics and settings without credentials (CVE-2022-34321)",
        "401; /metrics where authenticate_metrics_endpoint says so, as with Apache; open pages are listed",
        (
            f"{ACCESS}/test_http_doors.py::test_every_url_states_rights_and_open_urls_are_listed",
            "unit/gateway/http/auth/test_callers.py::test_metrics_need_credentials_where_the_setting_says_so",
            "unit/rpc/test_access.py::test_a_caller_without_usable_credentials_is_not_judged",
            f"{ENGINE}::test_an_operation_is_open_to_those_who_have_its_need",
        ),
    ),
    Check(
        39,
        "Quotas are passed by with many namespaces, topics, partitions or clients",
        "limits count them all",
        (
            "unit/tenancy/test_tenant_limits.py::test_no_more_namespaces_of_a_tenant_than_the_limit",
            "unit/broker/test_topic_room.py::test_topics_created_concurrently_by_clients_stay_within_the_limit",
            "unit/broker/test_topic_room.py::test_all_partitions_of_a_topic_created_by_a_client_count",
            f"{EVALUATOR}::test_a_grant_to_publish_is_none_to_set_policies",
        ),
    ),
)

INPUT = (
    Check(
        40,
        "Frames of 0, negative, huge or slightly too long sizes",
        "closed before memory is taken",
        (
            f"{FRAMES}::test_invalid_input_before_connect_closes_the_connection",
            "unit/net/test_transport.py::test_a_frame_above_the_limit_ends_the_connection_at_its_length_field",
            "unit/wire/test_kernels.py::test_a_frame_above_the_limit_is_detected_from_its_length_alone",
        ),
    ),
    Check(
        41,
        "A command longer than its frame; metadata longer than the rest",
        "closed",
        (
            f"{FRAMES}::test_invalid_input_before_connect_closes_the_connection",
            "unit/wire/test_batches.py::test_a_cut_entry_is_refused",
            "fuzz/test_parsers.py::test_arbitrary_bytes_are_refused_by_named_errors",
        ),
    ),
    Check(
        42,
        "A byte at a time before CONNECT; very many silent connections",
        "closed at the deadline; bounded in memory, and by address",
        (
            f"{FRAMES}::test_an_incomplete_handshake_ends_at_its_deadline",
            f"{FRAMES}::test_many_unread_requests_and_silent_sockets_use_bounded_memory",
            "unit/net/test_listener.py::test_an_address_has_a_cap_of_its_own",
            "unit/net/test_tls.py::test_a_client_without_a_handshake_is_disconnected_and_never_served",
        ),
    ),
    Check(
        43,
        "Unknown commands, wrong types, deep nesting, a million fields, a version of 4 MiB",
        "closed, answered or cut",
        (
            f"{CONNECTIONS}::test_bytes_that_are_no_command_end_the_connection",
            f"{CONNECTIONS}::test_a_command_with_more_than_it_needs_is_answered_or_ends_the_connection",
            f"{CONNECTIONS}::test_a_long_version_of_a_client_is_cut",
            "fuzz/test_broker.py::test_a_broker_serves_honest_clients_under_hostile_conversations",
        ),
    ),
    Check(
        44,
        "A message with a wrong checksum",
        "refused, not stored",
        (f"{FRAMES}::test_a_wrong_checksum_is_refused_and_stores_nothing",),
    ),
    Check(
        45,
        "A batch that claims a thousand million messages, or others than it holds",
        "a claim costs nobody else anything, and readers refuse it at once",
        (
            "unit/broker/connection/test_bounds.py::test_a_send_that_claims_many_messages_does_not_starve_other_sends",
            "unit/wire/test_batches.py::test_a_batch_that_claims_more_members_than_fit_is_refused_at_once",
        ),
    ),
    Check(
        46,
        "A compressed bomb, or a false size",
        "stopped at what it claims, and that is bounded; brokers do not unpack",
        (
            "unit/wire/test_batches.py::test_a_bomb_stops_at_what_it_claims",
            "unit/wire/test_batches.py::test_a_false_size_is_refused",
            "unit/wire/test_batches.py::test_a_payload_above_the_bound_is_not_unpacked",
        ),
    ),
    Check(
        47,
        "FLOW of 0, -1 and 2147483647, repeated",
        "0 closes, as with Apache; others count as no limit and never overflow",
        (
            f"{FRAMES}::test_a_flow_with_unusual_permits_is_handled",
            f"{BOUNDS}::test_no_more_messages_than_permitted_are_sent",
        ),
    ),
    Check(
        48,
        "Very many producers and consumers on one connection; ids that are in use",
        "refused above the limits; nothing more is opened",
        (
            f"{BOUNDS}::test_producers_and_consumers_per_connection_are_bounded",
            f"{CONNECTIONS}::test_an_id_that_is_in_use_opens_nothing_more",
        ),
    ),
    Check(
        49,
        "Acknowledgements of very many positions, of what is to come, with giant bit sets",
        "without effect, and nothing grows",
        (
            f"{CONNECTIONS}::test_acknowledgements_of_what_does_not_exist_grow_nothing",
            f"{FRAMES}::test_acks_and_seeks_of_positions_that_do_not_exist_are_handled",
            "unit/managed/cursors/test_cursor.py::test_an_ack_set_beyond_every_batch_is_refused_unread",
        ),
    ),
    Check(
        50,
        "Messages in chunks that are never finished",
        "bounded in number and bytes, given up after a time",
        (
            "unit/client/consuming/test_chunked.py::test_messages_begun_are_bounded_in_number_and_bytes",
            "unit/client/consuming/test_chunked.py::test_messages_that_went_no_further_are_given_up",
        ),
    ),
    Check(
        51,
        "A million properties, a key of 10 MiB",
        "refused by a bound of its own, or by that of a message",
        (
            f"{CONNECTIONS}::test_a_million_properties_of_a_producer_are_refused",
            "unit/broker/connection/test_bounds.py::test_subscription_properties_too_large_for_a_record_are_refused",
            f"{FRAMES}::test_invalid_input_after_connect_closes_the_connection",
        ),
    ),
    Check(
        52,
        "Storms of look-ups and other requests",
        "the connection is not read while its requests wait, and others are served",
        (
            f"{ROUTING}::test_a_connection_is_held_while_too_many_requests_wait",
            f"{FRAMES}::test_many_unread_requests_and_silent_sockets_use_bounded_memory",
        ),
    ),
    Check(
        53,
        "A pattern that makes a backtracking matcher work for minutes",
        "matched in linear time",
        (
            "unit/broker/connection/test_patterns.py::test_a_pattern_that_would_backtrack_for_minutes_is_matched_at_once",
            "unit/broker/connection/test_patterns.py::test_others_run_while_names_are_matched",
        ),
    ),
    Check(
        54,
        "JSON that is deep, repeats members, or has numbers without end",
        "400, at once",
        (
            f"{VALUES}::test_a_hostile_body_is_refused_soon",
            "unit/gateway/http/test_json_bodies.py::test_deep_nesting_is_refused",
            "unit/gateway/http/test_json_bodies.py::test_a_repeated_member_among_many_is_found_in_one_pass",
        ),
    ),
    Check(
        55,
        "A compressed body, a slow one, one without end",
        "415, 408, 413",
        (
            f"{HANDLER}::test_a_compressed_body_is_refused",
            f"{HANDLER}::test_a_body_that_does_not_arrive_in_time_is_refused",
            f"{HANDLER}::test_of_a_refused_body_a_bounded_part_is_dropped",
        ),
    ),
    Check(
        56,
        "Delivery in the year 9999, negative lifetimes, a thousand million partitions",
        "400, 412, or a bound of the policy",
        (
            f"{VALUES}::test_a_policy_beyond_its_range_is_refused_and_not_stored",
            f"{VALUES}::test_a_topic_of_very_many_partitions_is_not_created",
            "unit/broker/topics/test_delay_limit.py::test_a_message_too_far_ahead_is_refused_with_the_limit",
        ),
    ),
)

CHECKS: tuple[Check, ...] = IDENTITY + RIGHTS + INPUT

PENDING: frozenset[int] = frozenset()
"""Numbers of checks that have no row yet."""
