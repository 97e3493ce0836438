"""Mistakes in the commands for a running cluster."""

from tests.mutants.edit import Edit

TESTS = "unit/command/test_publish_and_read.py"
READING = "magnetar/command/messages/reading.py"

EDITS = (
    Edit(
        "acknowledged-before-it-is-written",
        f"{READING}::_print_all",
        "await printer.write(run)",
        "acknowledged is not None and acknowledged.add(run); await printer.write(run)",
        (
            f"{TESTS}::test_nothing_is_acknowledged_when_it_cannot_be_written",
            f"{TESTS}::test_no_ack_leaves_the_backlog",
        ),
        "P2",
    ),
    Edit(
        "half-a-batch-is-not-acknowledged",
        f"{READING}::Acknowledgements.send_parts",
        "if attachment.raw is not None:",
        "if attachment.raw is None:",
        (f"{TESTS}::test_a_batch_written_in_part_continues_where_it_ended",),
        "P2",
    ),
    Edit(
        "refused-messages-count-as-stored",
        "magnetar/command/messages/sending.py::Sender._take",
        "self.confirmed += len(stored)",
        "self.confirmed += len(results)",
        (f"{TESTS}::test_an_error_states_what_was_stored",),
        "P1",
    ),
    Edit(
        "terminal-obeys-a-message",
        "magnetar/command/output.py::safe",
        "return UNSAFE.sub(_escape, text)",
        "return text",
        (
            f"{TESTS}::test_a_hostile_message_is_one_harmless_line",
            "unit/command/test_shown.py::test_no_text_harms_a_terminal",
        ),
        "P3",
    ),
    Edit(
        "unknown-counts-as-well",
        "magnetar/command/checks/gateway.py::_hop",
        'if state == "ok":',
        'if state in ("ok", "unknown"):',
        ("unit/command/test_doctor.py::test_a_part_is_as_the_gateway_reports_it",),
        "P4",
    ),
)
