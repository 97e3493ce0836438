"""Mistakes in the WebSocket endpoints and both servers."""

from tests.mutants.edit import Edit

WS = "unit/gateway/ws"
SERVERS = "unit/gateway/servers/test_both_servers.py"

EDITS = (
    Edit(
        "permits-not-given-back",
        "gateway/ws/consumer.py::ConsumerEndpoint._receive",
        "if free and not self._pull:",
        "if free and self._pull:",
        (f"{WS}/test_consumer.py::test_permits_are_conserved_in_push_mode",),
        "W1",
    ),
    Edit(
        "delivery-without-permit",
        "gateway/ws/consumer.py::ConsumerEndpoint.accepted",
        "if not self._pull:",
        "if True:",
        (f"{WS}/test_consumer.py::test_permits_are_conserved_in_pull_mode",),
        "W1",
    ),
    Edit(
        "acknowledged-on-delivery",
        "gateway/ws/consumer.py::ConsumerEndpoint.deliver",
        "delivered(message_id, message.given)",
        """
        delivered(message_id, message.given)
        self.consumer.acknowledge(message.given)
        """,
        (
            f"{WS}/test_consumer.py::test_a_message_is_acknowledged_only_when_the_client_acknowledges_it",
        ),
        "W2",
    ),
    Edit(
        "failure-answered-with-ok",
        "gateway/ws/producer.py::ProducerEndpoint._answer",
        "port.send_text(frames.not_sent(frames.UNKNOWN_ERROR, str(error), token))",
        'port.send_text(frames.sent(b"", token))',
        (
            f"{WS}/test_producer.py::test_an_error_is_answered_by_its_own_context_and_harms_no_other",
        ),
        "W3",
    ),
    Edit(
        "size-of-what-is-pending-unbounded",
        "gateway/ws/producer.py::ProducerEndpoint.__init__",
        "IN_FLIGHT_BYTES_MAX,",
        "1 << 62,",
        (f"{WS}/test_producer.py::test_the_socket_is_not_read_while_too_much_waits",),
        "W4",
    ),
    Edit(
        "no-share-of-the-budget-of-all-sockets",
        "gateway/ws/producer.py::ProducerEndpoint.__init__",
        "share=IN_FLIGHT_BYTES_OWN,",
        "",
        (f"{WS}/test_producer.py::test_messages_that_wait_for_ever_stop_no_other_socket",),
        "W4",
    ),
    Edit(
        "only-payloads-count",
        "gateway/ws/frames.py::parse_message",
        "message.beside_bytes += len(text) - len(payload)",
        "pass",
        (f"{WS}/test_producer.py::test_fields_beside_the_payload_count_for_the_size",),
        "W4",
    ),
    Edit(
        "bodies-written-to-a-file",
        "gateway/servers/on_daphne.py::_Request.gotLength",
        "BytesIO()",
        "TemporaryFile()",
        (f"{SERVERS}::test_a_body_at_the_limit_is_taken_whole_and_stays_in_memory",),
        "W5",
    ),
    Edit(
        "uploads-of-strangers-are-stored",
        "gateway/servers/on_daphne.py::_Channel.allHeadersReceived",
        "if request.is_upload:",
        "if False:",
        (f"{SERVERS}::test_an_upload_of_a_wrong_caller_is_refused_by_its_head_and_not_kept",),
        "W5",
    ),
    Edit(
        "uploads-faster-than-they-are-taken",
        "gateway/servers/on_daphne.py::_Upload.feed",
        "if self._bytes > BUFFERED_BYTES_MAX and not self.is_held_back:",
        "if False:",
        (f"{SERVERS}::test_an_upload_is_received_whole_and_not_faster_than_it_is_taken",),
        "W5",
    ),
    Edit(
        "chunked-bodies-without-a-bound",
        "gateway/servers/on_daphne.py::_Channel.rawDataReceived",
        "if not receives or self._handlingRequest or not self.requests:",
        "if True:",
        (f"{SERVERS}::test_a_body_above_the_limit_is_refused_and_not_kept",),
        "W5",
    ),
    Edit(
        "a-lost-socket-counts-for-ever",
        "gateway/servers/websocket.py::SocketConnection.connection_lost",
        "self._sockets.on_lost(self._address)",
        "pass",
        (f"{SERVERS}::test_an_address_has_only_so_many_connections",),
        "W5",
    ),
    Edit(
        "pings-answered-without-bound",
        "gateway/servers/websocket.py::SocketConnection.pause_writing",
        "self._pause(_UNREAD)",
        "pass",
        (
            "unit/gateway/servers/test_websocket.py::test_a_client_that_reads_no_answers_is_not_read",
        ),
        "W4",
    ),
)
