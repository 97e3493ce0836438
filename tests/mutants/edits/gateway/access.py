"""Mistakes in the gateway's access: a caller that is not identified, or as another."""

from tests.mutants.edit import Edit

CALLERS = "unit/gateway/http/auth/test_callers.py"
IDENTITY = "unit/gateway/http/auth/test_identity.py"
ADMISSION = "unit/gateway/ws/test_admission.py"
DERIVED = "unit/gateway/people/test_derived_credentials.py"
HELD = "unit/gateway/people/test_held_people.py"
RUNS = "unit/admin_ui/access/test_runs_of_others.py"
SOCKETS = "unit/access/test_socket_doors.py"

EDITS = (
    Edit(
        "bad-credentials-fall-back-to-a-session",
        "gateway/http/auth/identity.py::_identify",
        "identity = await callers.identity(headers, address, certificate, shown_only=True)",
        "identity = None",
        (f"{IDENTITY}::test_credentials_that_are_shown_count_before_a_session",),
        "A17",
    ),
    Edit(
        "health-is-open-behind-a-proxy",
        "gateway/http/auth/identity.py::is_local",
        "return not forwarded and",
        "return",
        (f"{CALLERS}::test_the_health_check_of_this_machine_needs_no_credentials",),
        "A17",
    ),
    Edit(
        "strangers-fill-the-audit-log",
        "admin_ui/audit/recording.py::AuditRecorder._handle_recorded",
        "        except (AuthenticationFailed, RolesRefused):\n",
        "        except RolesRefused:\n",
        (
            "unit/gateway/http/auth/test_audited_callers.py::test_a_caller_that_is_not_known_leaves_no_entry",
        ),
    ),
    Edit(
        "websocket-ignores-the-token-of-its-query",
        "gateway/http/auth/handshakes.py::identify_socket",
        "if AUTHORIZATION not in headers and (token := _token(scope)):",
        "if False:",
        (f"{SOCKETS}::test_a_socket_opens_by_a_token_in_its_header_or_query",),
        "A17",
    ),
    Edit(
        "socket-outlives-its-rights",
        "gateway/ws/admission.py::Admission._judge_again",
        "self._end(error.reason)",
        "pass",
        (f"{ADMISSION}::test_a_socket_ends_when_its_client_loses_the_right",),
        "A20",
    ),
    Edit(
        "channel-outlives-its-rights",
        "admin_ui/live.py::LiveFeed._renew",
        "except Forbidden as error:\n                refusal = error",
        "except Forbidden:\n                pass",
        (
            "unit/gateway/http/auth/test_live_rights.py::test_channels_follow_the_rights_of_the_client",
        ),
        "A20",
    ),
    Edit(
        "read-only-policies-are-changed",
        "engine/tenancy/access/read_only.py::check_writable",
        "if not verdict.allowed:",
        "if False:",
        (
            "unit/gateway/services/test_guarded_store.py::test_policies_are_changed_only_without_the_flag",
        ),
        "A21",
    ),
    Edit(
        "read-only-policies-of-topics-are-changed",
        "engine/broker/administration/operations/policies.py::PolicyOperations.set_topic_policy",
        "await check_writable(self._store)",
        "",
        (
            "unit/broker/test_authorized_broker.py::test_policies_of_topics_are_changed_only_without_the_read_only_flag",
        ),
        "A21",
    ),
    Edit(
        "closed-subscription-ends-the-expiry-of-others",
        "gateway/services/admin/cursors.py::expire_all",
        "except Refusal as error:",
        "except ValueError as error:",
        (
            "unit/gateway/test_fan_out.py::test_a_subscription_closed_to_the_caller_does_not_keep_others_from_expiring",
        ),
    ),
    Edit(
        "tenant-admin-widens-its-tenant",
        "engine/tenancy/tenants.py::update_tenant",
        "if not by_superuser:",
        "if False:",
        (
            "unit/gateway/http/auth/test_judged_calls.py::test_only_a_superuser_changes_the_clusters_of_a_tenant",
        ),
        "A15",
    ),
    Edit(
        "roles-share-a-connection-to-a-broker",
        "gateway/clusters/acting_clients.py::ActingClients.use",
        "acting = self._clients.get(principal)",
        "acting = next(iter(self._clients.values()), None)",
        ("unit/gateway/clusters/test_acting_clients.py::test_each_role_has_a_client_of_its_own",),
        "A22",
    ),
    Edit(
        "run-starts-for-an-owner-without-the-right",
        "gateway/jobs/owners.py::check_owner",
        "if not verdict.allowed:",
        "if False:",
        (
            "unit/gateway/jobs/launching/test_owners.py::test_a_run_starts_while_its_owner_may_read_its_target",
        ),
        "A23",
    ),
    Edit(
        "results-of-a-run-are-for-all",
        "admin_ui/analyses/api.py::JobsView.run",
        "if not await self.may_see(run):",
        "if False:",
        (f"{RUNS}::test_lists_results_and_files_are_for_those_who_may_read_the_target",),
        "A23",
    ),
    Edit(
        "a-feed-shows-a-run-of-another-target",
        "admin_ui/analyses/live.py::_run",
        "if not judged or",
        "if",
        (f"{RUNS}::test_live_pushes_are_for_those_who_may_read_the_target",),
        "A23",
    ),
    Edit(
        "a-run-is-seen-without-the-right-to-what-it-also-reads",
        "gateway/jobs/rights.py::needs_of_run",
        "for read in run.also_reads:",
        "for read in ():",
        (f"{RUNS}::test_a_run_that_reads_a_second_topic_needs_the_right_to_both",),
        "A23",
    ),
    Edit(
        "change-during-a-read-of-viewers-policies-is-lost",
        "gateway/http/auth/viewers.py::HeldPolicies.refresh",
        "await each([name for name in stale if name in self._scopes], self._read)",
        "await each([name for name in stale if name in self._scopes], self._read); "
        "self._collect_changes(); self._stale = {}",
        (
            "unit/gateway/http/auth/test_held_policies.py::test_a_change_during_a_read_is_read_by_the_next_refresh",
        ),
    ),
    Edit(
        "live-feed-outlives-its-session",
        "gateway/people/held_people.py::HeldPeople._follow",
        "if watch.stands(known[watch.credential]):",
        "if True:",
        (
            "unit/gateway/http/auth/test_open_sessions.py::test_a_live_feed_ends_with_its_session",
            f"{DERIVED}::test_a_derived_credential_ends_with_what_it_derives_from",
        ),
        "A20",
    ),
    Edit(
        "socket-outlives-the-person-of-its-token",
        "gateway/http/auth/handshakes.py::watch_credentials",
        "elif person := person_of_token(identity):",
        "elif person := False:",
        (f"{DERIVED}::test_a_derived_credential_ends_with_what_it_derives_from",),
        "A20",
    ),
    Edit(
        "token-passes-to-a-later-person-of-the-name",
        "gateway/access/issued_tokens.py::personal_level",
        "if known is None or known.user.pk != evidence.person_id:",
        "if known is None:",
        (f"{DERIVED}::test_a_token_of_a_deleted_person_is_none_of_a_later_person_of_that_name",),
        "A30",
    ),
    Edit(
        "people-of-a-removed-provider-act-on",
        "gateway/people/acting.py::may_act",
        "return user.is_active and provider in known",
        "return user.is_active",
        (f"{DERIVED}::test_a_derived_credential_ends_with_what_it_derives_from",),
        "A30",
    ),
    Edit(
        "a-change-of-people-counts-later",
        "gateway/people/held_people.py::HeldPeople._note_change",
        "transaction.on_commit(self._forget, using=using)",
        "pass",
        (f"{HELD}::test_a_change_by_this_gateway_counts_at_once",),
        "A31",
    ),
    Edit(
        "a-read-before-a-change-counts-after-it",
        "gateway/people/held_people.py::HeldPeople.known",
        "held.revision == self._revision and ",
        "",
        (
            f"{HELD}::test_a_change_by_this_gateway_counts_at_once",
            f"{HELD}::test_a_read_that_begins_before_a_change_does_not_count_after_it",
        ),
        "A31",
    ),
    Edit(
        "people-are-held-for-ever",
        "gateway/people/held_people.py::HeldPeople.known",
        " and time.monotonic() < held.until_s",
        "",
        (f"{HELD}::test_a_change_by_another_gateway_counts_within_a_second",),
        "A31",
    ),
    Edit(
        "broker-starts-without-rights-of-its-own",
        "engine/auth/own_role.py::check_own_role",
        "if role not in superusers:",
        "if False:",
        ("unit/auth/test_own_role.py::test_another_role_is_refused_by_name",),
    ),
)
