"""The page of the command line, from the commands themselves: click's parameters and argparse's parsers."""

import argparse
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

import click

from tests.support.documents.reference.texts import GENERATED, table

INTRODUCTION = """\
`magnetar COMMAND --help` prints the options of a command. In a checkout the program is `.venv/bin/magnetar`.
Servers read their settings from `magnetar.toml` and from `MAGNETAR_…` variables: [settings](../settings.md).
"""
PROGRAM = "magnetar"
DJANGO = "manage"
"""The command whose arguments are Django's."""


class _ParserFoundError(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def page() -> str:
    """Return the page."""
    from magnetar.command.exits import MEANINGS
    from magnetar.command.main import COMMANDS, group

    text = f"# Command line\n\n{GENERATED}\n\n{INTRODUCTION}"
    context = click.Context(group, info_name=PROGRAM)
    names = group.list_commands(context)
    rows = [(f"[`{name}`](#{PROGRAM}-{name})", COMMANDS[name].help) for name in names]
    text += "\n" + table(("command", "purpose"), rows)
    codes = [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]
    text += "\n## Exit codes\n\n" + table(("code", "meaning"), codes)
    for name in names:
        command = group.get_command(context, name)
        assert command is not None
        text += "".join(_described(command, f"{PROGRAM} {name}", 2))
    return text


def _described(command: click.Command, name: str, level: int) -> Iterator[str]:
    """Yield the sections of a command and of those below it."""
    yield f"\n{'#' * level} {name}\n\n"
    # \b marks a paragraph that click does not wrap.
    yield _paragraphs(command.help or command.short_help or "") + "\n"
    parser = _parser_of(command, name)
    if parser is not None:
        yield from _parsed(parser, name, level)
        return
    context = click.Context(command, info_name=name)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            inner = command.get_command(context, below)
            assert inner is not None
            yield from _described(inner, f"{name} {below}", level + 1)
        return
    if any(p.type is click.UNPROCESSED for p in command.params):
        return
    yield "\n" + _fence(" ".join([name, *command.collect_usage_pieces(context)]))
    rows = [row for p in command.params if (row := _option(p, context)) is not None]
    if rows:
        yield "\n" + table(("option", "meaning"), rows)


def _paragraphs(text: str) -> str:
    """Return a help text as Markdown: without indentation, and an example as code."""
    lines = [line.strip() for line in text.replace("\b\n", "").splitlines()]
    examples = [re.sub(r"^Example: (.*)$", r"Example: `\1`", line) for line in lines]
    return "\n".join(examples).strip()


def _option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    return None if record is None else (f"`{record[0]}`", record[1])


def _parser_of(command: click.Command, name: str) -> argparse.ArgumentParser | None:
    """Return the parser of a command that passes its arguments to a program of its own; None for any other."""
    unprocessed = any(p.type is click.UNPROCESSED for p in command.params)
    if not unprocessed or name.endswith(f" {DJANGO}"):
        return None

    def found(parser: argparse.ArgumentParser, file: object = None) -> None:
        raise _ParserFoundError(parser)

    silent = io.StringIO()
    with (
        patch.object(argparse.ArgumentParser, "print_help", found),
        redirect_stdout(silent),
        redirect_stderr(silent),
    ):
        try:
            command.main(["--help"], standalone_mode=False)
        except _ParserFoundError as error:
            return error.parser
        except SystemExit:
            pass
    return None


def _parsed(parser: argparse.ArgumentParser, name: str, level: int) -> Iterator[str]:
    rows = []
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below += action.choices.items()
        elif action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction):
            rows.append((f"`{_syntax(action)}`", _help(action)))
    if rows:
        yield "\n" + table(("argument", "meaning"), rows)
    for word, inner in below:
        yield f"\n{'#' * (level + 1)} {name} {word}\n"
        if inner.description:
            yield f"\n{inner.description.strip()}\n"
        yield from _parsed(inner, f"{name} {word}", level + 1)


def _syntax(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    text = " ".join(metavar) if isinstance(metavar, tuple) else str(metavar)
    return f"{names} {text}".strip()


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")


def _fence(text: str) -> str:
    return f"```text\n{text}\n```\n"
