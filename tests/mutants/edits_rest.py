"""Mistakes in the REST interface, tenancy and the audit log."""

from tests.mutants.edit import Edit

BODIES = "unit/gateway/http/test_json_bodies.py"
HOSTILE = "unit/gateway/test_hostile_bodies.py"

EDITS = (
    Edit(
        "number-that-is-not-finite-is-taken",
        "gateway/http/json_bodies.py::_finite",
        "if not isfinite(number):",
        "if number != number:",
        (
            f"{BODIES}::test_what_could_not_be_stored_or_means_two_things_is_refused_by_name",
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
    Edit(
        "one-entry-hides-its-page-of-the-audit-log",
        "admin_ui/audit/changed.py::_number",
        "return number if isfinite(number) else text",
        "return number",
        (
            "unit/admin_ui/audit/test_audit_changed.py::test_what_no_answer_can_hold_is_shown_as_text",
        ),
    ),
)
