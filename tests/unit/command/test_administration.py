"""``topics`` and ``subscriptions``: the requests that they make, and what they print."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from magnetar.command.connecting import admin as module
from magnetar.command.connecting.admin import reason_of, topic_path
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.main import group

TOPIC = "/admin/v2/persistent/public/default/t"
SUBSCRIPTIONS = {"s": {"msgBacklog": 7, "type": "None", "consumers": []}}


class RecordingAdmin:
    """A REST interface that notes its calls. ``answers``: by path, None for all others."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers: dict[str, Any] = {
            f"{TOPIC}/partitions": {"partitions": 0},
            f"{TOPIC}/stats": {"subscriptions": SUBSCRIPTIONS},
        }

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        if method != "GET":
            self.calls.append((method, path, body))
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> RecordingAdmin:
    """The REST interface that the commands call."""
    recording = RecordingAdmin()

    @asynccontextmanager
    async def administered(address: Any) -> AsyncIterator[RecordingAdmin]:
        yield recording

    monkeypatch.setattr(module, "administered", administered)
    return recording


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, arguments)


@pytest.mark.parametrize(
    ("arguments", "request_made"),
    [
        (("topics", "create", "t"), ("PUT", TOPIC, None)),
        (("topics", "create", "t", "-p", "3"), ("PUT", f"{TOPIC}/partitions", 3)),
        (("topics", "partitions", "t", "4"), ("POST", f"{TOPIC}/partitions", 4)),
        (("topics", "unload", "t"), ("PUT", f"{TOPIC}/unload", None)),
        (("topics", "delete", "t", "-y"), ("DELETE", f"{TOPIC}?force=false", None)),
        (
            ("subscriptions", "create", "t", "a/b"),
            ("PUT", f"{TOPIC}/subscription/a%2Fb", "latest"),
        ),
        (
            ("subscriptions", "delete", "t", "s", "-y", "--force"),
            ("DELETE", f"{TOPIC}/subscription/s?force=true", None),
        ),
        (
            ("subscriptions", "skip", "t", "s", "3", "-y"),
            ("POST", f"{TOPIC}/subscription/s/skip/3", None),
        ),
        (
            ("subscriptions", "reset", "t", "s", "--to", "earliest", "-y"),
            ("POST", f"{TOPIC}/subscription/s/resetcursor/0", None),
        ),
        (
            ("subscriptions", "reset", "t", "s", "--to", "latest", "-y"),
            ("POST", f"{TOPIC}/subscription/s/skip_all", None),
        ),
        (
            ("subscriptions", "reset", "t", "s", "--to", "9223372036854775807:3", "-y"),
            (
                "POST",
                f"{TOPIC}/subscription/s/resetcursor",
                {"ledgerId": 2**63 - 1, "entryId": 3, "partitionIndex": -1},
            ),
        ),
    ],
)
def test_each_command_makes_one_change(
    rest: RecordingAdmin, arguments: tuple[str, ...], request_made: tuple[str, str, Any]
) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.exception) == (0, None)
    assert rest.calls == [request_made]


def test_a_partitioned_topic_is_deleted_with_its_partitions(rest: RecordingAdmin) -> None:
    rest.answers[f"{TOPIC}/partitions"] = {"partitions": 2}
    run("topics", "delete", "t", "--yes", "--force")
    assert rest.calls == [("DELETE", f"{TOPIC}/partitions?force=true", None)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "delete", "t"),
        ("subscriptions", "delete", "t", "s"),
        ("subscriptions", "skip", "t", "s", "--all"),
        ("subscriptions", "reset", "t", "s", "--to", "latest"),
        ("subscriptions", "skip", "t", "s"),
        ("subscriptions", "skip", "t", "s", "3", "--all", "-y"),
        ("subscriptions", "reset", "t", "s", "--to", "then", "-y"),
        ("topics", "create", "bad//name"),
        ("topics", "list", "public"),
    ],
)
def test_nothing_changes_without_a_confirmation_or_with_wrong_usage(
    rest: RecordingAdmin, arguments: tuple[str, ...]
) -> None:
    assert run(*arguments).exit_code == Exit.USAGE
    assert rest.calls == []


def test_a_missing_subscription_is_not_moved(rest: RecordingAdmin) -> None:
    result = run("subscriptions", "reset", "t", "other", "--to", "latest", "-y")
    assert result.exit_code == Exit.MISSING
    assert rest.calls == []


def test_partitions_are_listed_as_their_topic(rest: RecordingAdmin) -> None:
    base = "/admin/v2/persistent/public/default"
    full = "persistent://public/default"
    rest.answers[f"{base}/partitioned"] = [f"{full}/p"]
    rest.answers[base] = [f"{full}/p-partition-0", f"{full}/a\x1b", f"{full}/q-partition-1"]
    rows = json.loads(run("topics", "list", "--json").output)
    assert [row["topic"] for row in rows] == [
        f"{full}/{n}" for n in ("a\x1b", "p", "q-partition-1")
    ]
    assert "\x1b" not in run("topics", "list").output


def test_an_unknown_number_is_no_zero(rest: RecordingAdmin) -> None:
    rest.answers[f"{TOPIC}/stats"] = {"subscriptions": {"s": {"msgBacklog": None}}}
    assert "storage  ? bytes" in run("topics", "stats", "t").output
    assert "?" in run("subscriptions", "list", "t").output


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"reason": "no\\nsuch topic"}', "no such topic"),
        (b"plain \x1b[2J text", "plain ?[2J text"),
        (b"<html><body>404</body></html>", ""),
        (b'["x"]', '["x"]'),
        (b"", ""),
        (b"x" * 10_000, "x" * 500),
    ],
)
def test_the_reason_of_a_refusal_is_one_short_line(body: bytes, reason: str) -> None:
    assert reason_of(body) == reason


def test_a_name_is_one_part_of_the_path() -> None:
    assert topic_path("persistent://a/b/d?e#f é") == "/admin/v2/persistent/a/b/d%3Fe%23f%20%C3%A9"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    output = run("completion", shell).output
    assert "_MAGNETAR_COMPLETE" in output
    assert "magnetar" in output


def test_commands_are_completed_by_their_names() -> None:
    items = group.shell_complete(click.Context(group), "subs")
    assert [item.value for item in items] == ["subscriptions"]


def test_a_refusal_has_its_exit_code(rest: RecordingAdmin) -> None:
    rest.answers[TOPIC] = CommandFailed("no right", Exit.REFUSED)
    assert run("topics", "create", "t").exit_code == Exit.REFUSED
