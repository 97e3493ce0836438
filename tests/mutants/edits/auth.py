"""Mistakes in authentication: who a client is, and what is shown of secrets."""

from tests.mutants.edit import Edit

PROVIDERS = "unit/auth/authenticators"
TOKENS = f"{PROVIDERS}/test_token_provider.py"
BAD_TOKEN = f"{TOKENS}::test_a_bad_token_is_refused_for_a_reason_without_its_text"
AUTH = "unit/auth/test_authentication.py"
MEMORY = f"{PROVIDERS}/test_remembered.py"
BROKER = "unit/broker/test_authorized_broker.py"
CALLERS = "unit/gateway/http/auth/test_callers.py"
CHANGED = "unit/auth/test_changed_keys.py"
REVOKED = "unit/tenancy/access/test_revoked_tokens.py"

EDITS = (
    Edit(
        "signature-of-a-token-is-not-checked",
        "engine/auth/authenticators/jws.py::verify",
        "if not key.verifies(token.algorithm, token.signed, token.signature):",
        "if False:",
        (BAD_TOKEN,),
        "A7",
    ),
    Edit(
        "algorithm-of-a-token-is-not-checked",
        "engine/auth/authenticators/jws.py::verify",
        "if token.algorithm not in key.algorithms:",
        "if False:",
        (BAD_TOKEN,),
        "A7",
    ),
    Edit(
        "token-is-valid-at-its-end",
        "engine/auth/authenticators/jws.py::check_times",
        "if expires_at is not None and now_s >= expires_at + leeway_s:",
        "if expires_at is not None and now_s > expires_at + leeway_s:",
        (BAD_TOKEN,),
        "A7",
    ),
    Edit(
        "blank-role-is-a-role",
        "engine/auth/authenticators/jws.py::role_of",
        "if not isinstance(value, str) or not value.strip():",
        "if not isinstance(value, str):",
        (BAD_TOKEN,),
        "A7",
    ),
    Edit(
        "bad-credentials-are-anonymous",
        "engine/auth/authentication.py::Authentication._check",
        "self._count_failure(provider.name, method, error, address)\n            raise",
        "return Authenticated(self._roles.anonymous)",
        (f"{AUTH}::test_a_method_without_a_provider_is_anonymous_or_refused",),
        "A8",
    ),
    Edit(
        "reason-of-a-refusal-is-sent",
        "engine/auth/credentials.py::AuthenticationFailed.__init__",
        "super().__init__(REFUSED)",
        "super().__init__(reason)",
        (f"{AUTH}::test_a_method_without_a_provider_is_anonymous_or_refused",),
        "A8",
    ),
    Edit(
        "roles-of-a-proxy-are-not-checked",
        "engine/auth/authentication.py::Authentication._connected_roles",
        "if is_proxy != valid or (principal and not is_proxy):",
        "if is_proxy != valid:",
        (f"{AUTH}::test_roles_that_do_not_go_together_are_refused",),
        "A9",
    ),
    Edit(
        "caller-acts-for-anybody",
        "engine/auth/authentication.py::Authentication._request_roles",
        "valid = not principal or principal == own.role",
        "valid = True",
        (f"{AUTH}::test_a_caller_by_http_may_name_itself",),
        "A9",
    ),
    Edit(
        "result-is-remembered-beyond-its-end",
        "engine/auth/authenticators/remembered.py::Remembered._keep",
        "until_s = min(until_s, outcome.expires_at)",
        "pass",
        (f"{MEMORY}::test_credentials_are_not_remembered_beyond_their_end_or_a_change",),
        "A10",
    ),
    Edit(
        "result-is-remembered-through-a-change",
        "engine/auth/authenticators/remembered.py::Remembered.authenticate",
        "result.revision == revision",
        "True",
        (f"{MEMORY}::test_credentials_are_not_remembered_beyond_their_end_or_a_change",),
        "A10",
    ),
    Edit(
        "secret-setting-is-shown",
        "engine/broker/control/dynamic_settings.py::_text",
        "if setting.is_secret:",
        "if False:",
        (
            "unit/broker/control/test_dynamic_settings.py::"
            "test_a_secret_is_shown_by_no_report_of_settings",
        ),
        "A11",
    ),
    Edit(
        "anonymous-role-is-internal",
        "engine/auth/settings.py::AuthenticationSettings.__post_init__",
        "if self.anonymous_user_role == INTERNAL_ROLE:",
        "if False:",
        ("unit/auth/test_settings.py::test_anonymous_clients_have_no_role_of_the_instances_own",),
        "A13",
    ),
    Edit(
        "revoked-token-is-accepted",
        "engine/auth/authentication.py::Authentication._is_withdrawn",
        "if evidence.token_id in self._revoked:",
        "if False:",
        (f"{BROKER}::test_a_revoked_token_is_refused_and_its_connections_end",),
        "A24",
    ),
    Edit(
        "remembered-token-is-not-looked-for-among-the-revoked",
        "engine/auth/authentication.py::Authentication._check",
        "self._accept(outcome, provider, address)",
        "pass",
        (f"{BROKER}::test_a_broker_that_starts_accepts_no_token_that_was_revoked",),
        "A24",
    ),
    Edit(
        "broker-starts-without-the-revoked-tokens",
        "engine/broker/service.py::BrokerService.start",
        "await running.revoked.load()",
        "pass",
        (f"{BROKER}::test_a_broker_that_starts_accepts_no_token_that_was_revoked",),
        "A24",
    ),
    Edit(
        "digest-of-a-token-includes-its-signature",
        "engine/auth/authenticators/jws.py::token_id",
        "hashlib.sha256(token.signed)",
        "hashlib.sha256(token.signed + token.signature)",
        (f"{REVOKED}::test_two_signatures_of_the_same_claims_have_one_id",),
    ),
    Edit(
        "record-is-removed-before-its-token-has-ended",
        "engine/tenancy/access/revoked_tokens.py::remove_ended",
        "record.expires_at + SWEPT_AFTER_S <= now_s",
        "record.expires_at - SWEPT_AFTER_S <= now_s",
        (f"{REVOKED}::test_a_record_is_removed_after_its_token_has_ended_for_good",),
        "A24",
    ),
    Edit(
        "gateway-accepts-tokens-before-it-knows-the-revoked-ones",
        "gateway/http/auth/callers.py::Callers.identity",
        "await self._revoked[0].known()",
        "pass",
        (f"{CALLERS}::test_no_token_is_accepted_before_it_is_known_which_are_revoked",),
        "A24",
    ),
    Edit(
        "socket-outlives-its-revoked-token",
        "gateway/http/auth/callers.py::Callers._end_withdrawn",
        "ended()",
        "pass",
        (
            "unit/gateway/ws/test_admission.py::test_a_socket_ends_when_its_token_is_revoked",
            "unit/gateway/http/auth/test_live_rights.py::"
            "test_a_live_feed_ends_when_its_token_is_revoked",
        ),
        "A24",
    ),
    Edit(
        "token-of-a-replaced-key-is-not-withdrawn",
        "engine/auth/authentication.py::Authentication._is_withdrawn",
        "return bool(evidence.key_id)",
        "return False",
        (f"{CHANGED}::test_tokens_of_a_replaced_secret_are_refused_within_two_seconds",),
        "A25",
    ),
    Edit(
        "changed-key-is-not-read-again",
        "engine/auth/authenticators/watched_file.py::WatchedFile.follow",
        "if state == self._state:",
        "if True:",
        (f"{CHANGED}::test_tokens_of_a_replaced_secret_are_refused_within_two_seconds",),
        "A25",
    ),
    Edit(
        "keys-are-looked-at-for-new-connections-alone",
        "engine/broker/running.py::Running.follow_credentials",
        "self.authentication.start(self._withdraw)",
        "pass",
        (f"{BROKER}::test_connections_of_tokens_by_a_replaced_key_end",),
        "A25",
    ),
    Edit(
        "key-of-one-provider-is-unknown-to-the-others",
        "engine/auth/authenticators/provider_list.py::ProviderList.key_ids",
        "for provider in self._providers)",
        "for provider in self._providers[:1])",
        (f"{CHANGED}::test_a_key_that_moves_to_the_second_provider_withdraws_nothing",),
        "A25",
    ),
    Edit(
        "a-text-counts-as-a-list-of-roles",
        "engine/auth/authorization/policy_view.py::_texts",
        "if not isinstance(stored, list | tuple | set | frozenset):",
        "if not isinstance(stored, list | tuple | set | frozenset | str):",
        (
            "unit/gateway/http/auth/test_damaged_records.py::test_viewers_and_the_judge_answer_alike_about_a_damaged_record",
        ),
        "A32",
    ),
    Edit(
        "a-damaged-record-keeps-its-rights",
        "engine/tenancy/access/stored_access.py::namespace_access",
        "return NamespaceAccess.damaged(str(error))",
        "raise",
        (
            "unit/tenancy/access/test_policy_judge.py::test_a_record_that_is_damaged_gives_no_right_and_its_repair_gives_them_again",
        ),
        "A32",
    ),
)
