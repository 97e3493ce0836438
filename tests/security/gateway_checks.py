"""Checks 57 to 112: the gateway and its console, WebSockets, jobs and dependencies, and holes of Apache Pulsar's."""

from tests.security.check import Check

BROWSERS = "security/test_browsers.py"
SIGN_IN = "unit/gateway/people/test_sign_in.py"
PROVIDERS = "unit/gateway/people/test_providers.py"
OWN_SESSION = "unit/gateway/people/test_own_session.py"
IDENTITY = "unit/gateway/http/auth/test_identity.py"
ORIGINS = "unit/gateway/http/test_origins.py"
ADMIN_REST = "unit/gateway/test_admin_rest.py"
CONNECTION = "unit/gateway/http/test_connection.py"
MATRIX = "unit/access/test_permission_matrix.py"
JUDGED = "unit/gateway/http/auth/test_judged_calls.py"
VIEWERS = "unit/access/test_viewers_are_asked.py"
INPUT = "security/test_console_input.py"
SERVERS = "unit/gateway/servers/test_both_servers.py"
OPEN_SESSIONS = "unit/gateway/http/auth/test_open_sessions.py"
ERRORS = "unit/gateway/test_errors.py"
HANDLER = "unit/gateway/http/test_handler.py"
SWITCHED_OFF = "security/test_switched_off.py"
JOBS = "security/test_jobs.py"
CURSORS = "security/test_cursors.py"
ATTEMPTS = "unit/gateway/jobs/test_attempts.py"
SOCKETS = "security/test_sockets.py"
DOORS = "unit/access/test_socket_doors.py"
ADMISSION = "unit/gateway/ws/test_admission.py"
LIVE_RIGHTS = "unit/gateway/http/auth/test_live_rights.py"
FRAMES = "unit/gateway/servers/test_websocket.py"
LIVE_FEED = "unit/gateway/test_live_feed.py"
CONSUMER = "unit/gateway/ws/test_consumer.py"
WS_FRAMES = "unit/gateway/ws/test_frames.py"
REPLIES = "unit/gateway/ws/test_replies.py"
SECURE = "unit/gateway/standalone/test_secure.py"
DEPENDENCIES = "security/test_dependencies.py"
CHAIN = "unit/admin_ui/audit/test_chain.py"
FILES = "unit/test_private_files.py"
FOREIGN = "unit/broker/test_foreign_resources.py"
ENGINE_MATRIX = "unit/access/test_engine_matrix.py"
EVALUATOR = "unit/auth/authorization/test_evaluator.py"

CHECKS: tuple[Check, ...] = (
    Check(
        57,
        "a change of a session without its CSRF token, or of another page; a read with an effect",
        "403, nothing changed",
        (
            f"{BROWSERS}::test_each_method_that_changes_needs_the_token_of_the_session",
            f"{BROWSERS}::test_in_tls_a_change_of_a_session_needs_the_referer_of_this_page",
            f"{BROWSERS}::test_a_read_by_a_page_of_another_site_starts_nothing",
            f"{IDENTITY}::test_a_change_under_a_session_needs_its_token",
            f"{ORIGINS}::test_a_change_by_a_page_of_another_origin_is_refused_and_the_setting_named",
        ),
    ),
    Check(
        58,
        "a sign-in without its CSRF token, or by a form",
        "403",
        (
            f"{SIGN_IN}::test_a_sign_in_needs_the_csrf_token",
            f"{BROWSERS}::test_no_form_begins_a_session_or_resets_a_password",
        ),
    ),
    Check(
        59,
        "a form or a text where JSON is expected",
        "415",
        (
            f"{BROWSERS}::test_forms_and_texts_are_no_bodies",
            f"{ADMIN_REST}::test_a_form_body_is_415_without_a_body",
        ),
    ),
    Check(
        60,
        "an origin 'null', with a similar suffix, a subdomain, another scheme or port",
        "no header allows it, changes are 403",
        (
            f"{BROWSERS}::test_an_origin_that_looks_like_an_allowed_one_is_foreign",
            f"{ORIGINS}::test_a_page_of_an_allowed_origin_changes_and_reads",
        ),
    ),
    Check(
        61,
        "a forged Host, X-Forwarded-Host, X-Forwarded-For or Forwarded",
        "400, or ignored unless the peer is a trusted proxy; connections are counted by the peer's address",
        (
            f"{BROWSERS}::test_a_forged_host_is_refused",
            f"{BROWSERS}::test_a_second_host_is_refused",
            f"{BROWSERS}::test_forwarded_names_are_in_no_answer",
            f"{CONNECTION}::test_the_client_is_the_first_address_that_no_proxy_has",
            f"{CONNECTION}::test_the_scheme_counts_from_named_proxies_alone",
            "unit/gateway/http/auth/test_callers.py::test_the_health_check_of_this_machine_needs_no_credentials",
        ),
    ),
    Check(
        62,
        "next= and paths that lead to another site",
        "no answer redirects, but to the page of a provider of the settings",
        (
            f"{BROWSERS}::test_no_answer_leads_to_another_site",
            f"{PROVIDERS}::test_a_browser_is_sent_to_paths_of_the_console_alone",
            f"{PROVIDERS}::test_a_way_back_that_this_browser_did_not_begin_is_refused",
        ),
    ),
    Check(
        63,
        "names of another tenant in path, query, body, export and channel",
        "refused alike whether they exist or not (403, as Apache); 404 for saved views",
        (
            f"{MATRIX}::test_each_call_of_the_console_is_open_to_those_who_have_its_need",
            f"{MATRIX}::test_each_channel_is_open_to_those_who_have_its_need",
            "unit/access/test_what_viewers_see.py::test_no_body_for_a_viewer_names_what_it_does_not_see",
            f"{JUDGED}::test_a_refusal_is_the_same_whether_what_it_names_exists",
            f"{JUDGED}::test_lists_of_the_console_contain_what_the_caller_may_see",
            f"{VIEWERS}::test_each_selector_and_export_is_of_a_viewer_or_of_something_judged",
            f"{INPUT}::test_a_view_of_another_owner_does_not_exist",
        ),
    ),
    Check(
        64,
        "members owner, tenant, is_staff, created_by, state in bodies",
        "ignored",
        (
            f"{INPUT}::test_members_that_a_body_does_not_have_change_nothing",
            f"{INPUT}::test_a_run_has_the_owner_and_the_state_that_the_gateway_gives",
        ),
    ),
    Check(
        65,
        "sorting and filtering by columns that are not offered",
        "400, or ignored",
        (
            f"{INPUT}::test_a_list_is_sorted_by_named_columns_alone",
            f"{INPUT}::test_filters_are_values_and_no_conditions",
            "unit/gateway/test_console_api.py::test_a_wrong_parameter_is_400_and_named",
        ),
    ),
    Check(
        66,
        "a script as a name, property, definition, payload or line of a log",
        "text everywhere; scripts of the gateway alone (inline styles are allowed), nosniff",
        (
            f"{INPUT}::test_a_name_is_no_markup_of_an_answer",
            f"{INPUT}::test_the_console_makes_no_markup_and_no_code_of_texts",
            f"{ADMIN_REST}::test_every_answer_carries_the_security_headers",
            f"{SERVERS}::test_a_refused_handshake_is_a_page",
            "unit/gateway/rest/test_older_paths.py::test_names_with_control_characters_are_taken_whole_and_kept_on_one_line",
        ),
    ),
    Check(
        67,
        "the console in a frame of another page",
        "refused by two headers",
        (f"{BROWSERS}::test_no_page_is_shown_in_a_frame_or_runs_foreign_scripts",),
    ),
    Check(
        68,
        "a session id that the attacker chose, cookies without flags, a socket after the end of its session",
        "begins no session; HttpOnly, SameSite=Strict, Secure in TLS; closed within seconds",
        (
            f"{BROWSERS}::test_a_session_id_that_a_client_invents_begins_no_session",
            f"{BROWSERS}::test_scripts_and_other_sites_do_not_see_the_cookie_of_a_session",
            f"{CONNECTION}::test_cookies_of_answers_by_tls_are_for_tls_alone",
            f"{IDENTITY}::test_a_deleted_session_is_unauthenticated",
            f"{OPEN_SESSIONS}::test_a_live_feed_ends_with_its_session",
            f"{SIGN_IN}::test_a_sign_in_gives_a_new_key_and_ends_the_session_that_was_shown",
            f"{OWN_SESSION}::test_a_person_acts_as_one_of_its_roles",
        ),
    ),
    Check(
        69,
        "a token to reset a password: guessed, used again",
        "refused",
        (f"{BROWSERS}::test_no_form_begins_a_session_or_resets_a_password",),
        absent="No link resets a password: a superuser replaces it by one that is for one sign-in.",
    ),
    Check(
        70,
        "error pages with settings or stack traces",
        "a reason and a request id",
        (
            f"{ERRORS}::test_a_failure_outside_the_rest_views_is_logged_with_its_trace",
            f"{HANDLER}::test_exceptions_of_middleware_are_logged_and_answered",
            f"{ERRORS}::test_every_kind_of_refusal_has_its_status_and_keeps_its_reason",
        ),
    ),
    Check(
        71,
        "an archive with .., absolute names, links and devices (CVE-2024-27317)",
        "refused, nothing written",
        (
            f"{SWITCHED_OFF}::test_no_upload_and_no_address_is_taken",
            f"{SWITCHED_OFF}::test_no_other_program_unpacks_archives_or_fetches_addresses_of_clients",
            "unit/functions/runtime/test_unpacking.py::test_no_name_of_an_archive_leads_out_of_its_folder",
        ),
    ),
    Check(
        72,
        "an archive that grows beyond measure",
        "stopped at a bound",
        (
            f"{SWITCHED_OFF}::test_no_upload_and_no_address_is_taken",
            f"{HANDLER}::test_a_compressed_body_is_refused",
            "unit/functions/runtime/test_unpacking.py::test_an_archive_that_unpacks_to_too_much_is_refused",
        ),
    ),
    Check(
        73,
        "a package from file:, loopback, link-local or private addresses (CVE-2024-27894)",
        "refused, nothing is fetched",
        (
            f"{SWITCHED_OFF}::test_no_upload_and_no_address_is_taken",
            f"{SWITCHED_OFF}::test_no_other_program_unpacks_archives_or_fetches_addresses_of_clients",
            "unit/gateway/services/functions/test_package_urls.py::test_an_address_that_is_not_public_is_refused",
            "unit/gateway/services/functions/test_package_urls.py::test_the_address_that_was_judged_is_connected_to",
            "unit/gateway/rest/functions/test_components.py::test_a_refused_function_leaves_nothing",
        ),
    ),
    Check(
        74,
        "a function's configuration that selects classes or expressions (CVE-2024-27135)",
        "refused",
        (
            f"{SWITCHED_OFF}::test_no_upload_and_no_address_is_taken",
            f"{JOBS}::test_no_program_uses_a_shell_or_makes_code_of_texts",
            "unit/functions/definitions/test_configs.py::test_a_refusal_has_apaches_text",
        ),
    ),
    Check(
        75,
        "an endpoint of a sink, of offloading or of a cluster at an internal address",
        "stored at most, never connected to",
        (
            f"{SWITCHED_OFF}::test_an_offload_endpoint_is_never_connected_to",
            f"{SWITCHED_OFF}::test_no_other_program_unpacks_archives_or_fetches_addresses_of_clients",
        ),
        absent="Tenants choose no endpoint of offloading; sinks connect from the process of their function.",
    ),
    Check(
        76,
        "conditions and statements in the values of queries",
        "values alone; lists are divided by viewer below the query",
        (
            f"{INPUT}::test_filters_are_values_and_no_conditions",
            f"{INPUT}::test_queries_are_made_of_constants_and_values",
            f"{VIEWERS}::test_the_doors_to_all_topics_are_of_a_viewer",
        ),
    ),
    Check(
        77,
        "formulas in exported tables, line breaks and quotes in the name of a file",
        "no cell begins a formula; the name has nothing of the request",
        (
            f"{INPUT}::test_a_table_has_no_cell_that_a_spreadsheet_evaluates",
            f"{INPUT}::test_the_name_of_an_exported_file_has_nothing_of_the_request",
        ),
    ),
    Check(
        78,
        "requests whose end is ambiguous: two lengths, length and chunks, bare LF, folded lines",
        "400, the connection is closed",
        (
            f"{SERVERS}::test_a_request_whose_end_is_ambiguous_is_refused",
            f"{SERVERS}::test_lines_of_a_head_end_with_both_characters",
            f"{SERVERS}::test_a_folded_header_is_refused",
        ),
    ),
    Check(
        79,
        "an answer for one caller in a cache",
        "no-store, or private and asked for again each time",
        (f"{BROWSERS}::test_no_shared_cache_stores_an_answer",),
    ),
    Check(
        80,
        "the same change sent twice at once, a confirmation sent again",
        "one effect; two launches of an analysis are two runs, which change nothing",
        (
            f"{CURSORS}::test_a_confirmed_change_is_made_once",
            f"{BROWSERS}::test_a_change_that_is_sent_twice_at_once_has_one_effect",
            "integration/gateway/test_at_once.py::test_no_concurrent_change_is_lost",
            f"{ATTEMPTS}::test_a_message_received_twice_is_processed_once",
        ),
    ),
    Check(
        81,
        "a handshake by a page of another origin with the victim's cookie",
        "403 on every route",
        (
            f"{SOCKETS}::test_no_route_opens_for_a_page_of_another_origin",
            f"{SOCKETS}::test_each_route_of_the_router_is_tried",
            f"{ORIGINS}::test_a_socket_of_a_page_of_another_origin_is_refused_and_the_setting_named",
        ),
    ),
    Check(
        82,
        "a handshake with a cookie and without an Origin",
        "401; tokens need no Origin",
        (f"{SOCKETS}::test_a_session_opens_a_socket_for_a_page_of_the_gateway_alone",),
    ),
    Check(
        83,
        "any route without credentials, also ping and health (CVE-2023-37544)",
        "401, or 404 for paths that do not exist",
        (
            f"{SOCKETS}::test_no_route_opens_without_credentials",
            f"{DOORS}::test_with_authentication_on_no_socket_without_a_user_opens",
            f"{MATRIX}::test_each_endpoint_opens_for_those_who_have_its_need",
        ),
    ),
    Check(
        84,
        "a token in the query of a handshake",
        "in no log and no answer, and no credential of HTTP; it is accepted, since Pulsar's browser clients send it so",
        (
            f"{SOCKETS}::test_a_token_of_a_query_is_in_no_log_and_no_answer",
            f"{SOCKETS}::test_a_token_in_the_query_of_a_request_is_no_credential",
            f"{DOORS}::test_a_socket_with_bad_credentials_is_refused_where_others_are_anonymous",
        ),
        absent="There are no tickets for one handshake.",
    ),
    Check(
        85,
        "an open socket after its right was revoked, its token or its session has ended",
        "closed within a second; 4 s after a session",
        (
            f"{OPEN_SESSIONS}::test_a_live_feed_ends_with_its_session",
            f"{ADMISSION}::test_a_socket_ends_when_its_client_loses_the_right",
            f"{ADMISSION}::test_a_right_that_is_lost_while_a_socket_opens_ends_it",
            f"{ADMISSION}::test_a_socket_ends_with_its_credentials",
            f"{LIVE_RIGHTS}::test_channels_follow_the_rights_of_the_client",
            f"{LIVE_RIGHTS}::test_a_live_feed_ends_with_the_credentials",
        ),
    ),
    Check(
        86,
        "a message of a gigabyte, fragments without end, compression, pings without end, frames without a mask",
        "closed, or not read, at the limits",
        (
            f"{FRAMES}::test_a_message_above_a_mebibyte_is_refused_by_what_it_announces",
            f"{FRAMES}::test_compression_is_never_negotiated",
            f"{FRAMES}::test_invalid_frames_close_with_their_code",
            f"{FRAMES}::test_a_client_that_reads_no_answers_is_not_read",
            f"{SOCKETS}::test_fragments_without_end_are_bounded",
        ),
    ),
    Check(
        87,
        "a name that joins another group of the channel layer",
        "names of groups are made of plain ids; a body for one viewer is sent to no other",
        (
            f"{SOCKETS}::test_the_group_of_a_run_is_made_of_plain_ids_alone",
            f"{LIVE_FEED}::test_a_wrong_command_is_answered_and_the_socket_lives_on",
            "unit/admin_ui/test_feeds.py::test_a_body_made_for_one_viewer_is_not_sent_to_another",
        ),
    ),
    Check(
        88,
        "a reader that never reads",
        "closed, or given no more, when 1 MiB waits",
        (
            f"{LIVE_FEED}::test_a_socket_that_reads_nothing_blocks_no_other_and_is_closed",
            f"{FRAMES}::test_a_client_that_must_read_and_does_not_is_given_up",
            f"{CONSUMER}::test_a_client_that_does_not_read_is_given_no_more",
        ),
    ),
    Check(
        89,
        "ten thousand sockets of one user",
        "a limit for each address; a user has no limit of its own",
        (
            f"{SERVERS}::test_an_address_has_only_so_many_connections",
            "unit/gateway/servers/test_https.py::test_a_connection_above_the_limit_of_its_address_is_refused",
            f"{LIVE_FEED}::test_subscriptions_per_socket_are_bounded",
        ),
    ),
    Check(
        90,
        "random commands",
        "an error for each, no trace, and a socket that still answers",
        (
            f"{SOCKETS}::test_random_commands_are_answered_and_harm_no_socket",
            f"{WS_FRAMES}::test_any_text_is_a_message_or_a_frame_error",
            f"{WS_FRAMES}::test_any_object_is_a_message_or_a_frame_error",
            f"{REPLIES}::test_invalid_replies_end_the_socket",
        ),
    ),
    Check(
        91,
        "an acknowledgement of a message that another socket received",
        "as in Pulsar allowed, on the socket's own subscription alone; ids of other forms are refused",
        (
            f"{CONSUMER}::test_messages_sent_to_an_earlier_socket_can_be_answered_here",
            f"{REPLIES}::test_invalid_message_ids_are_refused",
        ),
    ),
    Check(
        92,
        "a task in pickle or YAML, and results in them",
        "refused without being parsed; results are not kept",
        (
            f"{JOBS}::test_a_message_that_is_no_json_is_refused_unparsed",
            f"{JOBS}::test_tasks_and_results_are_json_and_results_are_not_kept",
        ),
    ),
    Check(
        93,
        "a task's name or queue from a request",
        "declared analyses alone; the worker has two tasks",
        (
            f"{JOBS}::test_only_declared_analyses_are_launched",
            f"{JOBS}::test_the_worker_has_its_own_tasks_alone",
        ),
    ),
    Check(
        94,
        "arguments of another tenant's run, an old task again",
        "the owner's right is checked at the start; a stale attempt changes nothing",
        (
            "unit/gateway/jobs/launching/test_owners.py::test_a_run_starts_while_its_owner_may_read_its_target",
            f"{ATTEMPTS}::test_a_message_received_twice_is_processed_once",
            "unit/gateway/jobs/test_late_attempts.py::test_a_late_attempt_changes_nothing_of_the_one_at_work",
            f"{JOBS}::test_arguments_of_other_types_reach_no_run",
        ),
    ),
    Check(
        95,
        "options of Java, jars, --conf and shell characters among the parameters of a run",
        "400; programs are started by lists of arguments",
        (
            f"{JOBS}::test_a_run_configures_nothing_of_spark",
            f"{JOBS}::test_no_program_uses_a_shell_or_makes_code_of_texts",
        ),
    ),
    Check(
        96,
        "pages and ports of Spark, Redis and Celery from outside",
        "on loopback, without pages",
        (f"{JOBS}::test_the_parts_behind_the_gateway_are_on_loopback_and_have_no_pages",),
    ),
    Check(
        97,
        "paths of other runs and of files outside in a download",
        "404; an attempt has a directory of its own",
        (
            f"{JOBS}::test_a_download_is_a_file_of_its_run",
            f"{JOBS}::test_a_run_has_the_files_that_its_row_lists",
            "unit/gateway/jobs/test_outputs.py::test_a_sweep_keeps_what_counts_and_what_it_does_not_know",
        ),
        absent="A run names no place for its files, and only superusers launch and read runs.",
    ),
    Check(
        98,
        "a user's function that reads the environment, files and ports, or takes all memory",
        "isolated",
        (
            "integration/functions/test_instances.py::test_the_worker_is_hidden_from_the_function",
            "integration/functions/test_instances.py::test_memory_above_the_functions_is_refused_to_it",
        ),
        absent="Its network is open, CPU is not limited, and files are those that the worker's user may read.",
    ),
    Check(
        99,
        "secrets in arguments of tasks, logs of jobs and plans of Spark",
        "absent",
        (
            f"{JOBS}::test_a_message_to_the_worker_is_an_id_and_a_number",
            "unit/spark_jobs/test_access.py::test_a_plan_has_no_secret_of_the_environment",
            f"{SECURE}::test_no_command_line_and_no_variable_has_a_secret",
            "interop/identity/test_secure_instance.py::test_no_secret_is_in_a_log_a_command_line_or_an_answer",
            "integration/gateway/test_audit_trail.py::test_secrets_are_not_audited",
            f"{INPUT}::test_a_token_in_the_query_of_a_change_is_not_recorded",
        ),
    ),
    Check(
        100,
        "a package without a version and hash, or with a known flaw; code in a schema (CVE-2024-47561)",
        "the installation fails; a definition is data",
        (
            f"{DEPENDENCIES}::test_each_python_package_has_a_version_and_hashes",
            f"{DEPENDENCIES}::test_each_package_of_the_front_end_has_a_version_and_a_hash",
            f"{DEPENDENCIES}::test_packages_are_installed_from_the_locks_alone",
            f"{JOBS}::test_no_program_uses_a_shell_or_makes_code_of_texts",
            "interop/test_bad_schemas.py::test_rest_refuses_invalid_schemas",
        ),
        absent="No check looks up known flaws of packages, which would need a network.",
    ),
    Check(
        101,
        "entries of the audit log changed behind the gateway's back",
        "noticed and named by `manage.py audit_verify`, unless the whole chain is recomputed",
        (
            f"{FILES}::test_a_start_makes_files_of_earlier_versions_private_and_no_others",
            "unit/gateway/test_audit_first.py::test_a_change_that_cannot_be_recorded_is_not_made",
            f"{CHAIN}::test_a_changed_entry_is_named",
            f"{CHAIN}::test_a_changed_outcome_is_named",
            f"{CHAIN}::test_a_removed_entry_is_named",
            f"{CHAIN}::test_an_inserted_entry_is_named",
            f"{CHAIN}::test_a_link_that_was_noted_is_found_again",
        ),
    ),
    Check(
        102,
        "files of journals, snapshots, keys and the console read by other users",
        "private to the user, and made so at the start",
        (
            f"{FILES}::test_files_that_a_program_creates_are_private_to_its_user",
            f"{FILES}::test_a_start_makes_files_of_earlier_versions_private_and_no_others",
            f"{SECURE}::test_the_files_are_for_their_user_alone_and_stay_over_a_restart",
            f"{SECURE}::test_files_that_others_can_read_are_closed_and_reported",
        ),
    ),
    Check(
        103,
        "the schema of a foreign topic",
        "refused",
        (
            f"{FOREIGN}::test_the_schema_of_a_foreign_topic_is_neither_shown_nor_changed",
            f"{ENGINE_MATRIX}::test_a_command_is_open_to_those_who_have_its_need",
        ),
    ),
    Check(
        104,
        "partitions and subscriptions in a foreign transaction",
        "refused: to add them needs the right to them, and a transaction is used by the role that began it",
        (
            f"{ENGINE_MATRIX}::test_a_command_is_open_to_those_who_have_its_need",
            "unit/broker/connection/test_transactions.py::test_another_role_cannot_use_a_transaction",
        ),
    ),
    Check(
        105,
        "a call by HTTP that is judged by the rights of the proxy that passes it on",
        "both roles need the right",
        (
            f"{EVALUATOR}::test_a_proxy_that_is_a_superuser_gives_its_client_nothing",
            f"{MATRIX}::test_a_proxy_and_its_client_both_need_the_right_by_http",
            f"{ENGINE_MATRIX}::test_a_proxy_gives_its_client_no_operation",
            f"{JUDGED}::test_a_proxy_gives_its_client_no_right_and_none_names_itself_another",
        ),
    ),
    Check(
        106,
        "a dead letter topic of another tenant in a handshake",
        "produce on it is needed",
        (
            f"{DOORS}::test_a_dead_letter_topic_needs_the_right_to_produce_there",
            f"{MATRIX}::test_each_endpoint_opens_for_those_who_have_its_need",
        ),
    ),
    Check(
        107,
        "triggering a function without the right to publish",
        "refused",
        (
            f"{EVALUATOR}::test_the_right_to_functions_is_not_the_right_to_what_they_read_and_write",
            f"{SWITCHED_OFF}::test_no_upload_and_no_address_is_taken",
            "unit/gateway/rest/functions/test_components.py::test_a_function_is_triggered_by_those_who_may_publish",
        ),
    ),
    Check(
        108,
        "the name of a package as a path to another namespace",
        "no name is a path",
        (
            f"{SWITCHED_OFF}::test_the_name_of_a_package_leads_to_no_other_namespace",
            f"{SWITCHED_OFF}::test_names_of_segments_stay_one_name",
            f"{EVALUATOR}::test_a_name_is_no_path_to_another_namespace",
            "unit/gateway/http/test_paths.py::test_a_segment_that_means_another_path_is_refused",
            "unit/packages/test_package_name.py::test_other_texts_are_refused",
            "unit/gateway/rest/functions/test_components.py::test_names_of_packages_are_escaped",
        ),
    ),
    Check(
        109,
        "a peek that creates a subscription",
        "consume on the subscription is needed, and nothing is created",
        (
            f"{CURSORS}::test_a_peek_creates_no_subscription",
            f"{CURSORS}::test_a_peek_creates_no_topic",
            f"{FOREIGN}::test_an_operation_on_a_subscription_of_others_is_refused",
        ),
    ),
    Check(
        110,
        "a subscription of role application by role app, with the mode Prefix",
        "refused: a hyphen must follow the role",
        (
            f"{EVALUATOR}::test_a_subscription_named_after_a_longer_role_is_not_the_shorter_ones",
            f"{FOREIGN}::test_a_subscription_named_after_a_longer_role_is_refused_with_apaches_text",
        ),
    ),
    Check(
        111,
        "an administrator who widens the allowed clusters of its tenant",
        "a superuser is needed",
        (
            "unit/auth/authorization/test_change_rights.py::test_an_administrator_rewrites_its_tenant_but_not_the_clusters",
            f"{JUDGED}::test_only_a_superuser_changes_the_clusters_of_a_tenant",
        ),
    ),
    Check(
        112,
        "statistics of transactions for any role",
        "the right to look up the topic, or to consume by the subscription; a superuser for coordinators",
        (
            f"{MATRIX}::test_each_call_of_rest_is_open_to_those_who_have_apaches_need",
            "unit/access/test_rest_rights.py::test_every_path_states_apaches_needs_or_a_listed_difference",
        ),
    ),
)

PENDING: frozenset[int] = frozenset()
"""Numbers of checks that have no row yet."""
