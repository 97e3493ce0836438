"""Placement of an edit: found despite changes around it, with an error when it is missing."""

from pathlib import Path

import pytest

from tests.mutants.edit import Edit, PlaceGoneError, edited
from tests.mutants.edits import EDITS

ROOT = Path(__file__).parents[2]

SOURCE = """
class A:
    def f(self, x):
        if (  # why
            x > 1
            and x < 5
        ):
            return "in"
        return "out"

    def g(self):
        return "out"
"""


def change(where: str, old: str, new: str, source: str = SOURCE) -> str:
    return edited(source, Edit("name", where, old, new, ()))


def test_comments_and_line_breaks_do_not_matter() -> None:
    changed = change("f.py", "if (x > 1 and x < 5):", "if x > 1:")
    assert changed == SOURCE.replace(
        SOURCE[SOURCE.index("if (") : SOURCE.index(":\n            return") + 1], "if x > 1:"
    )


def test_new_lines_replace_the_old_ones_in_place() -> None:
    changed = change("f.py::A.g", 'return "out"', 'x = 1\nif x:\n    return "in"')
    assert changed.endswith(
        '    def g(self):\n        x = 1\n        if x:\n            return "in"\n'
    )


@pytest.mark.parametrize(
    ("where", "old", "new", "why"),
    [
        ("f.py", 'return "out"', "pass", "name: found 2 times"),
        ("f.py::A.f", "x > 2", "x", "name: found 0 times"),
        ("f.py::A.h", "x", "y", "name: f.py has no A.h"),
        ("f.py::A.g", 'return "out"', "return (", "name: f.py is no Python"),
    ],
)
def test_a_missing_place_is_named(where: str, old: str, new: str, why: str) -> None:
    with pytest.raises(PlaceGoneError, match=why):
        change(where, old, new)


def test_names_of_edits_are_unique() -> None:
    names = [edit.name for edit in EDITS]
    assert sorted(set(names)) == sorted(names)


def test_every_edit_finds_its_place() -> None:
    for edit in EDITS:
        edited((ROOT / edit.file).read_text(), edit)


def test_every_test_of_an_edit_exists() -> None:
    missing = []
    for edit in EDITS:
        for test in edit.tests:
            file, _, function = test.partition("::")
            source = ROOT / "tests" / file
            name = function.partition("[")[0].rpartition("::")[2]
            if not source.exists() or (name and f"def {name}(" not in source.read_text()):
                missing.append((edit.name, test))
    assert not missing
