"""``changes`` and ``definitions``: what they ask for and print, the confirmation, and the exit codes."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.command.test_administration import RecordingAdmin, rest, run

__all__ = ["rest"]
BASE = "/api/v1/clusters/one"
COUNTS = dict.fromkeys(
    ("waiting", "planned", "refused", "applying", "done", "failed", "unknown"), 0
)
ITEM = {
    **{"topic": "acme/billing", "subscription": "", "state": "planned", "reason": ""},
    "effect": {"messages": None, "before": {"a": 1}, "after": {"a": 2}},
}
FIELD = {"field": "policies.retention", "before": None, "after": {"size": 1}}


def row(state: str, **counts: int) -> dict[str, Any]:
    return {
        **{"id": "s1", "kind": "definitions", "state": state, "digest": "d", "total": 2},
        **{"created_by": "ops", "counts": COUNTS | counts},
    }


@pytest.fixture
def gateway(rest: RecordingAdmin) -> RecordingAdmin:
    rest.answers["/api/v1/environment"] = {"cluster": "one"}
    differing = {"kind": "namespace", "name": "acme/billing", "subscription": "", "exists": True}
    rest.answers[f"{BASE}/definitions/diff"] = {
        **{"differing": [differing | {"fields_changed": [FIELD]}], "digest": "x", "objects": 7},
        **{"not_in_file": ["t"], "not_in_file_total": 1},
    }
    rest.answers[f"{BASE}/definitions/apply"] = row("planned", planned=1)
    for state in ("", "&state=planned"):
        items = f"{BASE}/changes/s1/items?offset=0&limit=1000{state}"
        rest.answers[items] = {"rows": [ITEM], "total": 1}
    rest.answers[f"{BASE}/changes/s1"] = row("planned", planned=1)
    rest.answers[f"{BASE}/changes/s1/confirm"] = row("finished", done=1)
    rest.answers[f"{BASE}/changes/s1/stop"] = row("stopped", planned=1)
    rest.answers[f"{BASE}/changes?limit=1000"] = {"rows": [row("finished", done=2)]}
    return rest


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text("version: 1\n")
    return str(path)


def test_an_export_is_printed_as_it_is(gateway: RecordingAdmin) -> None:
    gateway.answers[f"{BASE}/definitions?format=yaml&tenant=acme"] = "version: 1\ntenants: {}\n"
    exported = run("definitions", "export", "--tenant", "acme")
    assert exported.stdout == "version: 1\ntenants: {}\n"


def test_a_difference_is_printed_by_object_and_field(gateway: RecordingAdmin, file: str) -> None:
    lines = run("definitions", "diff", file).stdout.splitlines()
    assert lines == [
        "~ namespace acme/billing",
        '    policies.retention: not set -> {"size": 1}',
        "1 topics of the file's namespaces are not in it, and stay",
        "1 of 7 objects differ",
    ]


def test_a_file_is_applied_as_it_was_previewed(gateway: RecordingAdmin, file: str) -> None:
    refused = run("definitions", "apply", file)
    assert refused.exit_code != 0
    assert "acme/billing  {'a': 1} -> {'a': 2}  messages are lost, not counted" in refused.stderr
    done = run("definitions", "apply", file, "--yes")
    assert (done.exit_code, done.stdout) == (0, "s1 definitions finished: 1 done\n")
    bodies = {path: body for _, path, body in gateway.calls}
    assert bodies[f"{BASE}/definitions/apply"] == {"text": "version: 1\n", "digest": "x"}
    assert bodies[f"{BASE}/changes/s1/confirm"] == {"digest": "d"}


def test_nothing_is_applied_of_an_equal_file(gateway: RecordingAdmin, file: str) -> None:
    gateway.answers[f"{BASE}/definitions/diff"] |= {"differing": [], "digest": ""}
    done = run("definitions", "apply", file, "--yes")
    assert (done.exit_code, done.stdout) == (0, "nothing is to be changed\n")
    assert not any(path.endswith("/apply") for _, path, _ in gateway.calls)


def test_changes_are_listed_shown_and_stopped(gateway: RecordingAdmin) -> None:
    assert "s1" in run("changes", "list").stdout
    shown = run("changes", "show", "s1").stdout
    assert shown.splitlines()[0] == "s1 definitions planned: 1 planned"
    assert run("changes", "stop", "s1").stdout == "s1 definitions stopped: 1 planned\n"


def test_a_failed_object_ends_with_an_error(gateway: RecordingAdmin) -> None:
    gateway.answers[f"{BASE}/changes/s1/confirm"] = row("finished", done=1, failed=1)
    done = run("changes", "confirm", "s1", "--yes")
    assert done.exit_code != 0
    assert "not all was changed" in done.stderr
    assert "magnetar changes show s1" in done.stderr
