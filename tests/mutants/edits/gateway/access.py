"""Mistakes in the gateway's access: a caller that is not identified, or as another."""

from tests.mutants.edit import Edit

CALLERS = "unit/gateway/http/auth/test_callers.py"
IDENTITY = "unit/gateway/http/auth/test_identity.py"
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
        "admin_ui/audit/recording.py::AuditRecorder.__call__",
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
)
