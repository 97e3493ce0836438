"""The messages that the troubleshooting page explains are those that the programs write."""

import ast
import re
from functools import cache

import pytest

from tests.support.documents.pages import ROOT
from tests.support.import_graph import PACKAGES

PAGE = (ROOT / "docs" / "guides" / "troubleshoot.md").read_text()
GAP = "…"
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
FORMAT = re.compile(r"%[-0-9.]*[a-z]")
FRAGMENT_MIN = 4
"""Characters of a fragment that is searched; shorter ones are signs between values."""


def messages() -> list[str]:
    return ROW.findall(PAGE.partition("## By message")[2])


@cache
def texts() -> str:
    """Return all texts of the programs, one each line, with a gap for each value."""
    lines = []
    for package in PACKAGES:
        if package != "tests":
            for path in (ROOT / package).rglob("*.py"):
                lines += list(_texts(ast.parse(path.read_text())))
    return "\n".join(lines)


def _texts(tree: ast.AST) -> list[str]:
    found_texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else GAP for p in node.values]
            found_texts.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found_texts.append(node.value)
    return [FORMAT.sub(GAP, text).replace("\n", " ") for text in found_texts]


@pytest.mark.parametrize("message", messages())
def test_a_message_of_the_page_is_one_of_the_programs(message: str) -> None:
    parts = [part for part in message.split(GAP) if len(part.strip()) >= FRAGMENT_MIN]
    assert parts
    pattern = ".*".join(re.escape(part.strip()) for part in parts)
    assert re.search(pattern, texts()), message


def test_the_sections_that_others_link_to_exist() -> None:
    """Rules of alerts and pages elsewhere link to these headings."""
    headings = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert anchors >= {
        *("backlog-grows", "publishing-fails", "no-quorum", "bookie-read-only", "disk-full"),
        *("broker-down", "session-lost", "replication", "under-replicated", "duplicates"),
    }


def test_the_page_explains_many_messages() -> None:
    assert len(messages()) > 50
