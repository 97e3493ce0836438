"""The reference pages agree with the code that they describe."""

import argparse
import re

import click

from engine.wire.errors import ServerError
from tests.support.documents.pages import ROOT
from tests.support.documents.reference.__main__ import out_of_date
from tests.support.documents.reference.command_page import _described
from tests.support.documents.reference.texts import cell, first_sentence

PARAMETER = re.compile(
    r"""query\.(?:number|choice|flag|text|values\.get)\(\s*"(\w+)"|"(\w+)"\ in\ query""", re.VERBOSE
)


def test_generated_pages_are_fresh() -> None:
    assert out_of_date() == [], "run python -m tests.support.documents.reference"


def test_every_parameter_of_the_websockets_has_a_row() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "gateway" / "ws").glob("*.py"))
    names = {name for match in PARAMETER.findall(sources) for name in match if name}
    page = (ROOT / "docs" / "reference" / "websocket.md").read_text()
    assert len(names) > 25
    assert {name for name in names if f"`{name}`" not in page} == set()


@click.group(help="Do things.")
def things() -> None:
    """Stand for a group of commands."""


@things.command(help="Count them.")
@click.argument("topic")
@click.option("--limit", default=10, show_default=True, help="at most this many")
def count(topic: str, limit: int) -> None:
    """Stand for a command."""


def test_commands_of_click_are_listed_with_their_options() -> None:
    text = "".join(_described(things, "magnetar things", 2))
    assert "## magnetar things\n\nDo things.\n" in text
    assert "### magnetar things count\n\nCount them.\n" in text
    assert "magnetar things count [OPTIONS] TOPIC\n" in text
    assert "| `--limit INTEGER` | at most this many [default: 10] |" in text


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def passing(arguments: tuple[str, ...]) -> None:
    """Pass arguments to a program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=7, help="its port (%(default)s)")
    parser.parse_args(list(arguments))


def test_programs_are_listed_with_their_own_options() -> None:
    text = "".join(_described(passing, "magnetar passing", 2))
    assert "| `--port PORT` | its port (7) |" in text


def test_cells_of_tables_are_one_line() -> None:
    assert cell("a\n  b | c") == r"a b \| c"
    assert (
        first_sentence("Answer ``a.b`` of 1.5 rows. More.\n\nRest.") == "Answer `a.b` of 1.5 rows"
    )


def test_every_error_of_the_protocol_has_a_row() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert [error.name for error in ServerError if f"`{error.name}`" not in page] == []
