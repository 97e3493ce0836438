"""Mistakes in TLS, in who may connect by it, and in what is taken from proxies in front."""

from tests.mutants.edit import Edit

EDITS = (
    Edit(
        "any-peer-names-the-client-that-it-forwards",
        "gateway/http/connection.py::forwarded",
        "not client or not _is_in(client[0], proxies)",
        "not client",
        (
            "unit/gateway/http/test_connection.py::test_the_client_is_the_first_address_that_no_proxy_has",
            "unit/gateway/http/test_connection.py::test_the_scheme_counts_from_named_proxies_alone",
        ),
        holds="T3",
    ),
    Edit(
        "the-client-chooses-its-address-behind-a-proxy",
        "gateway/http/connection.py::forwarded",
        'reversed(_listed(scope["headers"], b"x-forwarded-for"))',
        '_listed(scope["headers"], b"x-forwarded-for")',
        (
            "unit/gateway/http/test_connection.py::test_the_client_is_the_first_address_that_no_proxy_has",
        ),
        holds="T3",
    ),
    Edit(
        "a-cookie-of-https-is-sent-in-clear",
        "gateway/http/exchange.py::send_answer",
        "if secure:",
        "if False:",
        ("unit/gateway/http/test_connection.py::test_cookies_of_answers_by_tls_are_for_tls_alone",),
    ),
    Edit(
        "a-connection-in-tls-is-counted-for-ever",
        "gateway/servers/on_uvicorn.py::Http.connection_lost",
        "self._addresses.leave(self._address)",
        'self._addresses.leave(self.transport.get_extra_info("peername")[0])',
        (
            "unit/gateway/servers/test_https.py::"
            "test_a_connection_above_the_limit_of_its_address_is_refused",
        ),
    ),
    Edit(
        "a-certificate-of-the-instance-ends-in-use",
        "gateway/standalone/secure.py::SecureFiles._reason_to_renew",
        "present.not_valid_after_utc - now < datetime.timedelta(days=RENEW_DAYS)",
        "False",
        (
            "unit/gateway/standalone/test_secure.py::"
            "test_certificates_are_renewed_before_they_end_and_nothing_else_is",
        ),
    ),
    Edit(
        "files-of-keys-that-others-can-read-stay-so",
        "engine/base/disk/secret_files.py::restrict",
        "path.chmod(stat.S_IMODE(mode) & ~OTHERS)",
        "pass",
        (
            "unit/gateway/standalone/test_secure.py::"
            "test_files_that_others_can_read_are_closed_and_reported",
        ),
    ),
    Edit(
        "any-address-is-listened-on",
        "engine/base/addresses.py::may_listen",
        "return authenticated or insecure or is_loopback(host)",
        "return True",
        (
            "unit/base/test_addresses.py::test_other_addresses_need_authentication_or_permission",
            "unit/base/test_addresses.py::test_a_host_that_must_not_be_listened_on_is_refused_by_name",
        ),
        holds="T4",
    ),
    Edit(
        "any-role-is-served-by-a-bookie",
        "bookie/requests/strangers.py::Strangers.handler_of",
        "role in self._roles",
        "True",
        (
            "unit/bookie/requests/test_strangers.py::"
            "test_a_client_without_an_authorized_role_is_refused_in_both_protocols",
        ),
        holds="T5",
    ),
    Edit(
        "clients-in-clear-are-served-though-roles-are-authorized",
        "bookie/server.py::Bookie._connection",
        "self.serving.requests if strangers is None else strangers",
        "self.serving.requests",
        ("unit/bookie/requests/test_strangers.py::test_a_client_in_clear_is_refused",),
        holds="T5",
    ),
)
