"""Mistakes in the bodies and answers of HTTP."""

from tests.mutants.edit import Edit

RECORDING = "unit/admin_ui/audit/test_recording.py"
BODIES = "unit/gateway/http/test_json_bodies.py"
HOSTILE = "unit/gateway/rest/test_hostile_bodies.py"

EDITS = (
    Edit(
        "second-of-a-repeated-header-dropped",
        "gateway/http/exchange.py::send_answer",
        "headers += answer.repeated_headers",
        "pass",
        (
            "unit/gateway/http/test_handler.py"
            "::test_a_header_that_is_given_several_times_is_sent_so",
        ),
        "",
    ),
    Edit(
        "change-of-unknown-outcome-may-be-tried-again",
        "gateway/http/errors.py::describe",
        "advice = LOOK_FIRST if changing else TRY_AGAIN",
        "advice = TRY_AGAIN",
        (
            "unit/gateway/test_errors.py::test_a_change_without_an_answer_is_reported_as_of_unknown_outcome",
        ),
    ),
    Edit(
        "path-decides-what-is-recorded",
        "gateway/http/view.py::RestView.may_change",
        "return request.method in CHANGING_METHODS and request.method not in cls.reading_methods",
        'return request.method in CHANGING_METHODS and not request.path_info.endswith("/backlogSize")',
        (f"{RECORDING}::test_every_route_records_changes_and_only_the_listed_reads_are_left_out",),
    ),
    Edit(
        "number-that-is-not-finite-is-taken",
        "gateway/http/json_bodies.py::_finite",
        "if not isfinite(number):",
        "if number != number:",
        (
            f"{BODIES}::test_unstorable_or_ambiguous_members_are_refused_by_name",
            f"{HOSTILE}::test_a_number_that_is_not_finite_is_refused_and_stored_nowhere",
        ),
    ),
    Edit(
        "half-a-character-is-taken",
        "gateway/http/json_bodies.py::decode_body",
        """if "\\\\u" in text and not _can_be_encoded(value):""",
        "if False:",
        (f"{HOSTILE}::test_half_a_character_is_refused_by_its_field",),
    ),
)
