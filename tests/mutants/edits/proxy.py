"""Mistakes of the proxy: targets that are no brokers, roles and credentials that are not the client's, bytes."""

from tests.mutants.edit import Edit

COPYING = "unit/proxy/test_copying.py"
IDENTITY = "unit/proxy/test_identity.py"
LOOKUPS = "unit/proxy/test_lookups.py"
HEADER = "unit/net/test_proxy_header.py"

EDITS = (
    Edit(
        "proxy-connects-anywhere",
        "engine/proxy/known_brokers.py::KnownBrokers.url_of",
        "self._by_authority.get(authority)",
        'self._by_authority.get(authority, f"pulsar://{target}")',
        (f"{COPYING}::test_a_target_that_is_no_broker_is_refused",),
        "A33",
    ),
    Edit(
        "proxys-client-names-another",
        "engine/proxy/client_handshake.py::ClientHandshake.connect",
        "if body.original_principal:",
        "if False:",
        (f"{IDENTITY}::test_a_client_cannot_name_another_client",),
        "A34",
    ),
    Edit(
        "copied-connection-outlives-credentials",
        "engine/proxy/client_handshake.py::ClientHandshake.hand_over",
        "if ends_with_credentials and",
        "if False and",
        (f"{IDENTITY}::test_a_copied_connection_ends_with_the_credentials",),
        "A34",
    ),
    Edit(
        "roles-share-the-proxys-link",
        "engine/proxy/client_end.py::ProxySession.upstream",
        "self if forwarding else role",
        "self if forwarding else None",
        (f"{IDENTITY}::test_a_request_names_its_clients_role_and_no_other",),
        "A34",
    ),
    Edit(
        "revocation-passes-the-proxy-by",
        "engine/proxy/proxy_service.py::ProxyService._withdraw",
        "if session.identified and",
        "if not session.copying and",
        (f"{IDENTITY}::test_a_revoked_token_ends_both_kinds_of_connections",),
        "A34",
    ),
    Edit(
        "client-answers-for-the-proxys-credentials",
        "engine/proxy/client_end.py::ProxySession.broker_refused",
        "if code == ServerError.AuthenticationError and",
        "if False and",
        (f"{IDENTITY}::test_a_client_does_not_answer_for_the_proxys_own_credentials",),
    ),
    Edit(
        "proxy-renews-with-the-first-credentials",
        "engine/proxy/client_handshake.py::ClientHandshake.renew",
        "self.accepted = credentials",
        "pass",
        (f"{IDENTITY}::test_a_lookup_connection_presents_renewed_credentials",),
    ),
    Edit(
        "address-of-the-header-is-dropped",
        "engine/net/proxy_header.py::_HeaderReader.data_received",
        "if address is not None:",
        "if False:",
        (f"{HEADER}::test_the_address_of_the_header_counts",),
        "T8",
    ),
    Edit(
        "slow-client-fills-the-proxy",
        "engine/proxy/client_end.py::ProxySession.pause_writing",
        "if self._copying and",
        "if False and",
        (f"{COPYING}::test_a_client_that_stops_reading_stops_the_broker",),
        "T9",
    ),
    Edit(
        "slow-broker-fills-the-proxy",
        "engine/proxy/broker_end.py::BrokerEnd.pause_writing",
        "if self.copying and",
        "if False and",
        (f"{COPYING}::test_a_reader_that_stops_stops_the_writer",),
        "T9",
    ),
    Edit(
        "broker-that-never-read-fills-the-proxy",
        "engine/proxy/client_end.py::ProxySession.broker_connected",
        "if broker.paused:",
        "if False:",
        (f"{COPYING}::test_a_broker_that_does_not_read_from_the_start_stops_the_client",),
        "T9",
    ),
    Edit(
        "bytes-before-the-answer-are-lost",
        "engine/proxy/client_end.py::ProxySession.broker_connected",
        "if early:",
        "if False:",
        (f"{COPYING}::test_bytes_sent_before_the_answer_arrive_behind_the_handshake",),
        "T9",
    ),
    Edit(
        "ended-connections-of-the-proxy-stay",
        "engine/proxy/client_end.py::ProxySession.closed",
        "self.broker = self._live = None",
        "pass",
        (f"{COPYING}::test_ended_connections_leave_no_cycles_of_references",),
    ),
    Edit(
        "silent-broker-is-kept",
        "engine/proxy/broker_end.py::BrokerEnd._tick",
        "if self._quiet_ticks == TICKS:",
        "if False:",
        (f"{COPYING}::test_a_silent_broker_is_given_up_and_one_that_sends_is_not",),
    ),
    Edit(
        "requests-in-flight-have-no-limit",
        "engine/proxy/requests_to_any.py::RequestsToAny._count",
        "if counters.in_flight >= self._in_flight_max:",
        "if False:",
        (f"{LOOKUPS}::test_requests_above_the_limit_are_refused",),
    ),
)
