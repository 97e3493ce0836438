"""``analyses``: the runs that it starts and waits for, and what it prints of them."""

import json
from typing import Any

import pytest

from magnetar.command.cluster import analyses
from magnetar.command.exits import Exit
from tests.unit.command.test_administration import RecordingAdmin, rest, run

__all__ = ["rest"]
SCHEMA = {
    "properties": {
        "topic": {"type": "string"},
        "key": {"type": "string"},
        "limit": {"type": "integer"},
        "exact": {"type": "boolean"},
    }
}
RESULT = {
    "conclusions": ["2 messages found."],
    "summary": [
        {"key": "hits", "label": "Messages found", "value": 1234, "unit": "messages"},
        {"key": "first", "label": "First", "value": 1_750_000_000_000, "unit": "ms"},
        {"key": "mean", "label": "Mean", "value": 0.123456, "unit": ""},
        {"key": "after", "label": "After", "value": None, "unit": ""},
    ],
}


def a_run(**values: Any) -> dict[str, Any]:
    return {
        **{"id": "abc", "analysis": "find", "title": "Find messages of t", "state": "succeeded"},
        **{"stage": "", "finished_at": 5, "created_at": 1_750_000_000_000, "error": None},
        **{"result": RESULT, "partial": None},
        **values,
    }


@pytest.fixture
def gateway(rest: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> RecordingAdmin:
    """A gateway whose runs are queued first and have succeeded then."""
    monkeypatch.setattr(analyses, "POLL_S", 0)
    known = {"name": "find", "question": "Where is it?", "parameters": SCHEMA}
    rest.answers["/api/v1/analyses"] = [known]
    queued = a_run(state="queued", stage="queued", finished_at=None, result=None)
    rest.answers["/api/v1/runs"] = queued
    rest.answers["/api/v1/runs/abc"] = a_run()
    return rest


def test_analyses_are_listed_with_their_questions(gateway: RecordingAdmin) -> None:
    assert run("analyses", "list").output.splitlines()[1].split(maxsplit=1) == [
        "find",
        "Where is it?",
    ]


def test_a_run_has_parameters_of_their_types_and_prints_its_findings(
    gateway: RecordingAdmin,
) -> None:
    answer = run(
        *("analyses", "run", "find", "t", "-p", "key=007", "-p", "limit=5", "-p", "exact=true")
    )
    assert answer.exit_code == 0, answer.output
    parameters = {"topic": "t", "key": "007", "limit": 5, "exact": True}
    assert gateway.calls == [
        ("POST", "/api/v1/runs", {"analysis": "find", "parameters": parameters})
    ]
    assert answer.stderr == "queued\n"
    assert answer.stdout.splitlines() == [
        "Find messages of t: succeeded",
        "",
        "2 messages found.",
        "",
        "Messages found  1,234 messages",
        "First           2025-06-15 15:06:40",
        "Mean            0.1235",
        "After           ?",
    ]


def test_without_waiting_the_id_is_printed(gateway: RecordingAdmin) -> None:
    assert run("analyses", "run", "find", "t", "--no-wait").output == "abc\n"


def test_a_failed_run_fails_the_command(gateway: RecordingAdmin) -> None:
    gateway.answers["/api/v1/runs/abc"] = a_run(state="failed", error="no bookie", result=None)
    answer = run("analyses", "run", "find", "t")
    assert "error: no bookie" in answer.stdout
    assert answer.exit_code == Exit.FAILED
    assert "the run has failed" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("nope", "t"), Exit.MISSING, "there is no analysis 'nope'"),
        (("find", "-p", "limit=many"), Exit.USAGE, "limit must be of type integer, not 'many'"),
        (("find", "-p", "size=1"), Exit.USAGE, "names: topic, key, limit, exact"),
    ],
)
def test_an_unknown_analysis_or_parameter_is_refused(
    gateway: RecordingAdmin, arguments: tuple[str, ...], code: Exit, text: str
) -> None:
    answer = run("analyses", "run", *arguments)
    assert text in str(answer.exception) + answer.output
    assert answer.exit_code == code
    assert gateway.calls == []


def test_runs_and_one_run_are_shown(gateway: RecordingAdmin) -> None:
    gateway.answers["/api/v1/runs?limit=50"] = {"rows": [a_run(title="of \x1b[2J")]}
    shown = run("analyses", "show").output
    assert "abc  succeeded  2025-06-15 15:06:40  of \\x1b[2J" in shown
    assert run("analyses", "show", "abc").output.startswith("Find messages of t: succeeded\n")
    assert json.loads(run("analyses", "show", "abc", "--json").output) == a_run()
