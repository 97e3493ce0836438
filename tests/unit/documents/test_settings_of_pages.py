"""The settings in the pages for users exist, in the table in which they are shown."""

import tomllib
from typing import Any

import pytest

import manage
from tests.support.documents.pages import Block, pages

BLOCKS = [
    block
    for page in pages()
    for block in page.blocks
    if block.kind == "toml" and not block.file  # the file of another program
]
PROGRAMS = {program.name: {s.name for s in program.settings()} for program in manage.programs()}


def unknown(text: str) -> list[str]:
    """Return the settings of a configuration file that no program reads from where they are."""
    tables: dict[str, Any] = tomllib.loads(text)
    shared = set().union(*PROGRAMS.values())
    wrong = []
    for name, value in tables.items():
        if not isinstance(value, dict):
            wrong += [name] if name not in shared else []
            continue
        program = "provider_NAME" if name.startswith("provider_") else name
        wrong += [f"[{name}] {key}" for key in value.keys() - PROGRAMS.get(program, set())]
    return wrong


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_the_settings_of_a_page_exist(block: Block) -> None:
    assert unknown(block.text) == []


def test_settings_that_no_program_has_are_found() -> None:
    text = "broker_port = 1\nbrokerport = 1\n[bookie]\nhttps_port = 1\n[provider_x]\nissuer = ''\n"
    assert unknown(text) == ["brokerport", "[bookie] https_port"]
