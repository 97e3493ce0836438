"""Mistakes in what the gateway refuses to attackers."""

from tests.mutants.edit import Edit

BROWSERS = "security/test_browsers.py"

EDITS = (
    Edit(
        "bodies-of-other-codings",
        "gateway/servers/on_daphne.py::_Channel.headerReceived",
        'name.lower() == b"transfer-encoding"',
        "False",
        (
            "unit/gateway/servers/test_both_servers.py"
            "::test_a_request_whose_end_is_ambiguous_is_refused",
        ),
        "",
    ),
    Edit(
        "sessions-without-a-page",
        "gateway/http/auth/handshakes.py::identify_socket",
        'and "origin" in headers',
        "",
        (
            "security/test_sockets.py::test_a_session_opens_a_socket_for_a_page_of_the_gateway_alone",
        ),
        "A17",
    ),
    Edit(
        "answers-that-caches-keep",
        "gateway/http/exchange.py::send_answer",
        'if not answer.has_header("Cache-Control"):',
        "if False:",
        (f"{BROWSERS}::test_no_shared_cache_stores_an_answer",),
        "",
    ),
    Edit(
        "reads-of-other-sites-have-effects",
        "gateway/http/security.py::is_of_another_site",
        'in ("cross-site", "same-site")',
        "in ()",
        (f"{BROWSERS}::test_a_read_by_a_page_of_another_site_starts_nothing",),
        "",
    ),
    Edit(
        "spark-starts-for-callers-who-may-launch-nothing",
        "admin_ui/analyses/api.py::AnalysesView",
        "and await self._sees_anything()",
        "",
        (f"{BROWSERS}::test_spark_starts_only_for_callers_who_may_launch_an_analysis",),
        "",
    ),
    Edit(
        "queries-recorded-with-secrets",
        "admin_ui/audit/recording.py::entry_for",
        'given_query(request.META.get("QUERY_STRING") or "")',
        'request.META.get("QUERY_STRING") or ""',
        ("security/test_console_input.py::test_a_token_in_the_query_of_a_change_is_not_recorded",),
        "",
    ),
)
