"""The tests of the gateway's database run on SQLite and on PostgreSQL, but those that are listed with a reason."""

import ast
import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.import_graph import ROOT
from tests.support.stores.gateway_database import (
    FOLDERS,
    ON_SQLITE_ALONE,
    check_folders,
    for_postgresql,
)

SKIPS = {"skip", "skipif"}


def item(name: str, *fixtures: str) -> Any:
    """Return what the collection has of a test."""
    marks: list[Any] = []
    return SimpleNamespace(
        nodeid=name,
        fixturenames=fixtures,
        get_closest_marker=lambda mark: None,
        add_marker=marks.append,
        marks=marks,
    )


def test_make_test_runs_the_folders_with_tests_of_the_database_on_postgresql() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^test: .*\bpostgresql\b", text, re.MULTILINE)
    [folders] = re.findall(r"^RECORDS \?= (.*)$", text, re.MULTILINE)
    assert tuple(folders.split()) == FOLDERS


def test_a_test_of_the_database_outside_the_folders_is_refused() -> None:
    check_folders([item(f"{FOLDERS[0]}/test_a.py::test_b", "db"), item("tests/x.py::test_c")])
    for fixture in ("db", "transactional_db"):
        with pytest.raises(pytest.UsageError, match=r"tests/x\.py::test_c uses"):
            check_folders([item("tests/x.py::test_c", "tmp_path", fixture)])


def test_postgresql_runs_the_tests_of_the_database_but_those_with_a_reason() -> None:
    listed = item(next(iter(ON_SQLITE_ALONE)), "db")
    other = item("tests/security/test_a.py::test_b", "transactional_db")
    assert for_postgresql([listed, item("tests/x.py::test_c"), other]) == [listed, other]
    assert [mark.kwargs["reason"] for mark in listed.marks] == [ON_SQLITE_ALONE[listed.nodeid]]
    assert other.marks == []


def test_each_test_for_sqlite_alone_exists() -> None:
    for name in ON_SQLITE_ALONE:
        path, _, function = name.partition("[")[0].partition("::")
        tree = ast.parse((ROOT / path).read_text())
        assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, name


def test_no_other_test_is_skipped_for_its_database() -> None:
    """Find a skip of one database: a vendor in a test's decorators, or a skip in a branch on the vendor."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.If | ast.Call) and "vendor" in ast.dump(node):
                    names = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                    assert not names & SKIPS, f"{path.relative_to(ROOT)}:{node.lineno}"
