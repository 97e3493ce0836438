"""The table of attacks is complete, and the tests that it names exist."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.security.check import Check
from tests.security.checks import CHECKS, PENDING

TESTS = Path(__file__).parents[1]
LAST = 112
SENTENCE = re.compile(r"[A-Z][^\n]+\.")


def exists(name: str) -> bool:
    """Return whether ``path::name`` below ``tests/`` is a test, by the text of its file."""
    path, _, test = name.partition("::")
    file = TESTS / path
    if not file.is_file() or not test.startswith("test_"):
        return False
    return (
        re.search(rf"^ *(async )?def {re.escape(test)}\(", file.read_text(), re.MULTILINE)
        is not None
    )


def faults(checks: Sequence[Check], pending: frozenset[int] = frozenset()) -> list[str]:
    """Return what is wrong with a table of checks."""
    numbers = [check.number for check in checks]
    wrong = [
        f"{number} stands twice" for number in sorted(set(numbers)) if numbers.count(number) > 1
    ]
    wrong += [
        f"{number} is missing"
        for number in range(1, LAST + 1)
        if number not in {*numbers, *pending}
    ]
    wrong += [f"{number} is no number of the list" for number in numbers if not 1 <= number <= LAST]
    wrong += [f"{number} has a row and is pending" for number in numbers if number in pending]
    for check in checks:
        if not check.attempt or not check.expected:
            wrong.append(f"{check.number} does not say what is tried and expected")
        if not check.tests and not check.absent:
            wrong.append(f"{check.number} names no test and no reason")
        if check.absent and not SENTENCE.fullmatch(check.absent):
            wrong.append(f"{check.number} gives a reason that is no sentence")
        if len(set(check.tests)) < len(check.tests):
            wrong.append(f"{check.number} names a test twice")
        wrong += [f"{check.number} names {name}" for name in check.tests if not exists(name)]
    return wrong


def test_each_attack_has_a_row_whose_tests_exist() -> None:
    assert faults(CHECKS, PENDING) == []


HERE = "security/test_checks.py::test_a_broken_table_is_reported"
WHOLE = [Check(number, "tried", "refused", (HERE,)) for number in range(1, LAST + 1)]


@pytest.mark.parametrize(
    ("checks", "fault"),
    [
        (WHOLE, []),
        (WHOLE[1:], ["1 is missing"]),
        ([*WHOLE, WHOLE[4]], ["5 stands twice"]),
        ([*WHOLE, WHOLE[0]._replace(number=113)], ["113 is no number of the list"]),
        ([WHOLE[0]._replace(tests=()), *WHOLE[1:]], ["1 names no test and no reason"]),
        ([WHOLE[0]._replace(tests=(), absent="No such feature."), *WHOLE[1:]], []),
        ([WHOLE[0]._replace(absent="none"), *WHOLE[1:]], ["1 gives a reason that is no sentence"]),
        ([WHOLE[0]._replace(tests=(HERE, HERE)), *WHOLE[1:]], ["1 names a test twice"]),
        ([WHOLE[0]._replace(tests=(f"{HERE}_x",)), *WHOLE[1:]], [f"1 names {HERE}_x"]),
        (
            [WHOLE[0]._replace(tests=("no/file.py::test_a",)), *WHOLE[1:]],
            ["1 names no/file.py::test_a"],
        ),
        (
            [WHOLE[0]._replace(expected=""), *WHOLE[1:]],
            ["1 does not say what is tried and expected"],
        ),
    ],
)
def test_a_broken_table_is_reported(checks: list[Check], fault: list[str]) -> None:
    assert faults(checks) == fault


def test_a_row_that_was_written_is_not_pending() -> None:
    assert faults(WHOLE, frozenset({7})) == ["7 has a row and is pending"]
