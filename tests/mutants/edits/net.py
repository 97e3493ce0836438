"""Mistakes in connections, commands and calls between processes."""

from tests.mutants.edit import Edit

AGAIN = "unit/gateway/services/test_namespace_made_again.py"
KERNELS_TEST = "unit/wire/test_kernels.py"

EDITS = (
    Edit(
        "new-credentials-may-change-the-role",
        "engine/net/handshake.py::Handshake.renew",
        "if (identity.role, identity.original) != (before.role, before.original):",
        "if False:",
        ("unit/net/test_handshake.py::test_wrong_answers_end_the_connection",),
        "T2",
    ),
    Edit(
        "expired-credentials-stay-valid",
        "engine/net/handshake.py::Handshake.end",
        """self._connection.close(HandshakeError("the client's credentials have expired"))""",
        "pass",
        ("unit/net/test_handshake.py::test_a_client_that_does_not_answer_is_disconnected",),
        "T2",
    ),
    Edit(
        "bytes-in-clear-count-as-encrypted",
        "engine/net/transport.py::Connection.check_clear",
        "if self._starting_tls:",
        "if False:",
        ("unit/net/test_start_tls.py::test_bytes_in_clear_behind_the_request_end_the_connection",),
        "T1",
    ),
    Edit(
        "answers-in-clear-while-tls-begins",
        "engine/net/transport.py::Connection.flush",
        "if not out or transport is None or self._starting_tls:",
        "if not out or transport is None:",
        (
            "unit/net/test_start_tls.py::test_a_peer_that_never_begins_the_handshake_is_disconnected",
        ),
        "T1",
    ),
    Edit(
        "early-bytes-follow-later-ones",
        "engine/net/network.py::Interim.hand_over",
        "protocol.data_received(bytes(self._early))",
        "asyncio.get_running_loop().call_soon(protocol.data_received, bytes(self._early))",
        ("unit/net/test_start_tls.py::test_bytes_of_the_handshake_precede_those_read_after_it",),
    ),
    Edit(
        "handshakes-count-for-no-address",
        "engine/net/tls_handshakes.py::TlsHandshakes.of",
        "return sum(peer == address for peer in self._addresses.values())",
        "return 0",
        ("unit/net/test_tls_handshakes.py::test_peers_in_the_handshake_count_for_their_address",),
        "T6",
    ),
    Edit(
        "redis-may-have-any-name",
        "gateway/redis_link.py::RedisSettings.tls",
        '"ssl_check_hostname": files.verify_hostname,',
        '"ssl_check_hostname": False,',
        (
            "security/test_outbound_links.py::test_a_server_with_the_certificate_of_another_host_receives_nothing",
        ),
    ),
    Edit(
        "any-byte-proves-a-client-alive",
        "engine/net/keepalive.py::KeepAlive.received",
        "self._received = self._received_in_probe = True",
        "self._answer_probe(True)",
        (
            "unit/net/test_keepalive.py::test_only_the_answer_to_the_ping_proves_that_the_peer_is_alive",
        ),
    ),
    Edit(
        "peer-of-a-held-connection-is-never-probed",
        "engine/net/keepalive.py::KeepAlive.is_alive",
        "if connection.closing: return False",
        "if connection.held or connection.closing: return not connection.closing",
        (
            "unit/net/test_keepalive.py::test_the_peer_of_a_held_connection_that_resets_it_is_not_alive",
        ),
    ),
    Edit(
        "probe-disconnects-who-is-not-read",
        "engine/net/keepalive.py::KeepAlive._end_probe",
        "elif self._was_read_since(self._probed_at):",
        "elif not self._connection.held:",
        (
            "unit/net/test_keepalive.py::test_a_peer_that_was_not_read_during_a_probe_is_not_disconnected",
        ),
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
        "a-token-that-differs-is-an-error-of-ours",
        "engine/rpc/client.py::_result",
        "status == 401",
        "status == 0",
        (
            "unit/rpc/test_client.py::"
            "test_a_token_that_the_broker_rejects_is_reported_with_the_setting_to_correct",
        ),
    ),
    Edit(
        "lost-race-with-an-unload-told-to-the-caller",
        "engine/rpc/client.py::RpcClient.call",
        "(*LOOK_UP_AGAIN_S, None)",
        "(None,)",
        (f"{AGAIN}::test_only_requests_refused_before_any_change_are_repeated",),
    ),
    Edit(
        "one-address-may-have-all-connections-of-a-private-port",
        "engine/net/http.py::HttpServer",
        "per_address_max=per_address_max",
        "per_address_max=0",
        ("unit/broker/test_service.py::test_one_address_leaves_room_on_the_private_port",),
    ),
    Edit(
        "a-batch-has-as-many-messages-as-its-command-claims",
        "engine/wire/kernels.py::take_sends",
        "messages = messages_in(buf, start, stop)",
        "messages = read_varint(buf, sequence_stop + 1, start)[0]",
        (f"{KERNELS_TEST}::test_a_send_counts_the_messages_of_its_entrys_metadata",),
    ),
    Edit(
        "a-server-is-reported-ready-before-it-works",
        "engine/programs/program.py::Signals.run",
        "await server.start()",
        "notices.ready(); await server.start()",
        (
            "unit/programs/test_program.py::"
            "test_the_service_manager_is_not_notified_of_a_server_that_did_not_start",
        ),
    ),
    Edit(
        "a-gateway-that-answers-errors-is-reported-ready",
        "gateway/servers/first_answer.py",
        "line.split()[1] in ANSWERS",
        "True",
        (
            "unit/programs/test_service_manager.py::"
            "test_a_gateway_that_fails_its_first_check_is_not_ready",
        ),
    ),
    Edit(
        "a-command-refuses-the-tables-of-a-cluster",
        "engine/programs/cluster_backups.py",
        "partial=True",
        "partial=False",
        (
            "unit/test_settings.py::"
            "test_a_command_reads_the_file_of_a_cluster_with_tables_of_all_programs",
        ),
    ),
)
