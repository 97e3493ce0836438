"""Mistakes in authentication: who a client is, and what is shown of secrets."""

from tests.mutants.edit import Edit

PROVIDERS = "unit/auth/authenticators"
TOKENS = f"{PROVIDERS}/test_token_provider.py"
BAD_TOKEN = f"{TOKENS}::test_a_bad_token_is_refused_for_a_reason_without_its_text"
AUTH = "unit/auth/test_authentication.py"
MEMORY = f"{PROVIDERS}/test_remembered.py"

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
)
