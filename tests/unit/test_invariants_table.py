"""The files and tests that docs/invariants.md names for each invariant exist and cite it."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mutants.edits import EDITS

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| ([IBDOJWCSNATRZLKGPQUXF]\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE
)
QUOTED = re.compile(r"`([^`]+)`")


class Row(NamedTuple):
    number: str
    promise: str
    held: str
    tests: str


TABLE = [Row(*cells) for cells in ROW.findall((ROOT / "docs" / "invariants.md").read_text())]


def test_the_numbers_of_each_letter_are_complete_and_unique() -> None:
    letters: dict[str, list[int]] = {}
    for row in TABLE:
        letters.setdefault(row.number[0], []).append(int(row.number[1:]))
    assert letters.keys() == set("IBDOJWCSNATRZLKGPQUXF")
    assert {letter: sorted(numbers) for letter, numbers in letters.items()} == {
        letter: list(range(1, len(numbers) + 1)) for letter, numbers in letters.items()
    }


def cites(file: Path, number: str) -> bool:
    return re.search(rf"\b{number}\b", file.read_text()) is not None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.number)
def test_the_files_named_cite_the_number_and_the_tests_named_exist(row: Row) -> None:
    files, tests = QUOTED.findall(row.held), QUOTED.findall(row.tests)
    assert files
    assert tests
    for name in files:
        assert cites(ROOT / name, row.number), f"{name} does not say {row.number}"
    for name in tests:
        path, _, test = name.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), name


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.number)
def test_an_edit_breaks_the_row_and_is_seen_by_its_tests(row: Row) -> None:
    files, tests = QUOTED.findall(row.held), QUOTED.findall(row.tests)
    breaking = [edit for edit in EDITS if row.number in edit.holds.split()]
    assert any(edit.file in files and set(edit.tests) <= set(tests) for edit in breaking)


def test_no_number_is_cited_that_the_table_does_not_have() -> None:
    known = {row.number for row in TABLE}
    for part in ("bookie", "engine"):
        for file in sorted((ROOT / part).rglob("*.py")):
            cited = set(re.findall(r"\bI[1-9]\d?\b", file.read_text()))
            assert cited <= known, f"{file} cites {sorted(cited - known)}"
