"""``magnetar <program>``: arguments reach the program as they are, and its exit status is the command's."""

import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from bookie.__main__ import main as bookie_main
from engine.__main__ import COMMANDS as ENGINE_COMMANDS
from engine.__main__ import main as engine_main
from gateway.serve import main as gateway_main
from gateway.standalone.cli import main as standalone_main
from gateway.worker import main as worker_main
from magnetar.command import main
from magnetar.command.exits import Exit
from magnetar.command.programs import program as program_command


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
    result = CliRunner().invoke(program_command("bookie", "A bookie.", note), words)
    assert seen == [words]
    assert result.exit_code == status


PROGRAMS: list[tuple[Callable[[list[str]], object], str]] = [
    *((engine_main, name) for name in ("", "broker", "proxy", "metadata", "metadata copy")),
    *((engine_main, name) for name in ("tokens create", "certificates authority")),
    *((engine_main, name) for name in ENGINE_COMMANDS),
    *((bookie_main, ""), (gateway_main, ""), (worker_main, ""), (standalone_main, "run")),
]
"""Programs as ``python -m`` calls them."""


def ended_as_wrong_usage(call: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that a call with a wrong option writes, after its exit status 2."""
    try:
        code = call()
    except SystemExit as error:
        code = error.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (Exit.USAGE, "")
    assert shown.err.count("\n") == 1, shown.err
    return shown.err


@pytest.mark.parametrize(
    "words",
    [
        (),
        *((name,) for name in main.COMMANDS),
        *(("topics", "list"), ("init", "cluster"), ("metadata", "copy"), ("bookie", "inspect")),
        *(("bookie", "rebuild-index"), ("tokens", "create"), ("certificates", "authority")),
    ],
    ids=" ".join,
)
def test_wrong_usage_of_a_command_is_one_line_and_exits_with_2(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["magnetar", *words, "--no-such"])
    assert "magnetar" in ended_as_wrong_usage(main.main, capsys)


@pytest.mark.parametrize(("program", "words"), PROGRAMS)
def test_wrong_usage_of_a_program_is_one_line_and_exits_with_2(
    program: Callable[[list[str]], object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_as_wrong_usage(lambda: program([*words.split(), "--no-such"]), capsys)


def test_a_worker_without_celery_refuses_wrong_options_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gateway.worker.find_spec", lambda name: None)
    line = ended_as_wrong_usage(lambda: worker_main(["--concurrency", "0"]), capsys)
    assert line.startswith("magnetar worker: argument --concurrency: ")


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
