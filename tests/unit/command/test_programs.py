"""``magnetar <program>``: arguments reach the program as they are, and its exit status is the command's."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from magnetar.command import main
from magnetar.command.exits import Exit
from magnetar.command.programs import program


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.group, arguments)


@pytest.mark.parametrize("name", main.COMMANDS)
def test_each_listed_command_can_be_imported(name: str) -> None:
    command = main.Commands().get_command(click.Context(main.group), name)
    assert command is not None
    assert command.get_short_help_str()


def test_the_help_lists_commands_but_not_second_names() -> None:
    text = run("--help").output
    assert "broker" in text
    assert "initialize-cluster-metadata" not in text


@pytest.mark.parametrize("status", [0, 1, 78])
def test_arguments_are_passed_as_they_are(status: int) -> None:
    seen: list[list[str]] = []

    def note(arguments: list[str]) -> int:
        seen.append(arguments)
        return status

    words = ["--port", "1", "--help", "-x", "name", "--", "last"]
    result = CliRunner().invoke(program("bookie", "A bookie.", note), words)
    assert seen == [words]
    assert result.exit_code == status


@pytest.mark.parametrize("name", ["broker", "proxy"])
def test_a_program_without_options_refuses_them(name: str) -> None:
    assert run(name, "--port", "1").exit_code == Exit.USAGE
    helped = run(name, "--help")
    assert helped.exit_code == 0
    assert "MAGNETAR_" in helped.output


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("bookie", "--help"), "usage: magnetar bookie"),
        (("bookie", "inspect", "--help"), "usage: magnetar bookie inspect"),
        (("metadata", "--help"), "usage: magnetar metadata"),
        (("run", "--help"), "usage: magnetar run"),
        (("init", "cluster", "--help"), "usage: magnetar initialize-cluster-metadata"),
        (("initialize-namespace", "--help"), "usage: magnetar initialize-namespace"),
        (("certificates", "--help"), "usage: magnetar certificates"),
    ],
)
def test_the_help_of_a_program_names_the_command(words: tuple[str, ...], usage: str) -> None:
    result = run(*words)
    assert result.exit_code == 0
    assert result.output.startswith(usage)


def test_a_worker_without_celery_has_help_but_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.worker.find_spec", lambda name: None)
    helped = run("worker", "--help")
    assert helped.exit_code == 0
    assert helped.output.startswith("usage: magnetar worker")
    assert run("worker").exit_code == Exit.SETTINGS


def test_a_server_that_cannot_start_with_its_settings_exits_with_78(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAGNETAR_BROKER_PORT", "nonsense")
    assert run("broker").exit_code == Exit.SETTINGS
