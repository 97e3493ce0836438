"""Waits of tests: for conditions, without fixed sleeps and without bounds that a busy machine can reach."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITES = ("unit", "integration", "interop", "crash", "e2e", "contract", "fuzz", "golden", "support")
MARK = "# time:"
"""Start of the comment that gives the reason for testing a length of time."""

BOUND_MIN_S = 30.0
SLEEPS = ("asyncio.sleep", "time.sleep")
VIRTUAL = ("virtual_time", "simulated")
POLLS = ("stop", "stopped", "_stop", "_stopped", "_ended")
"""Events of a loop's own end: their wait is the loop's pause."""


def is_virtual(node: ast.AST) -> bool:
    """Return whether a function or a module runs in virtual time."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return any(word in ast.unparse(mark) for mark in node.decorator_list for word in VIRTUAL)
    assert isinstance(node, ast.Module)
    marks = [ast.unparse(s.value) for s in node.body if _assigns(s, "pytestmark")]  # type: ignore[attr-defined]
    return any(word in mark for mark in marks for word in VIRTUAL)


def _assigns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name


def _number(node: ast.expr | None, constants: dict[str, float]) -> float | None:
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    return None


def _bound(node: ast.AST, constants: dict[str, float]) -> float | None:
    """Return the bound of a wait in seconds; None when the expression is no wait or has no literal bound."""
    if isinstance(node, ast.BinOp):
        clock = isinstance(node.op, ast.Add) and ast.unparse(node.left).endswith(".monotonic()")
        return _number(node.right, constants) if clock else None
    if not isinstance(node, ast.Call):
        return None
    owner, _, name = ast.unparse(node.func).rpartition(".")
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    if (owner, name) == ("asyncio", "timeout"):
        return _number(node.args[0], constants)
    if (owner, name) == ("asyncio", "wait_for"):
        return _number(node.args[1] if len(node.args) > 1 else named.get("timeout"), constants)
    if name in ("until", "until_blocking"):
        return _number(named.get("bound_s"), constants)
    waits = name in ("result", "wait") and owner.rpartition(".")[2] not in POLLS
    if waits or (name == "join" and "thread" in owner):
        return _number(node.args[0] if node.args else named.get("timeout"), constants)
    return None


def _catches(node: ast.AST) -> bool:
    """Return whether the node catches a timeout: the test then expects the wait to end at its bound."""
    if isinstance(node, ast.With | ast.AsyncWith):
        contexts = " ".join(ast.unparse(item.context_expr) for item in node.items)
        return "raises(" in contexts or "suppress(" in contexts
    if isinstance(node, ast.Try):
        caught = [
            ast.unparse(handler.type) for handler in node.handlers if handler.type is not None
        ]
        return any(word in name for name in caught for word in ("Timeout", "Expired"))
    return False


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a test module that wait for a length of time, each with its remedy."""
    tree = ast.parse(source)
    if is_virtual(tree):
        return
    lines = source.split("\n")
    constants = {
        ast.unparse(statement.targets[0]): float(statement.value.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, int | float)
    }

    def walk(node: ast.AST, test: bool, polls: bool, caught: bool) -> Iterator[tuple[int, str]]:
        for child in ast.iter_child_nodes(node):
            in_test, in_poll = test, polls or isinstance(child, ast.While)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if is_virtual(child):
                    continue
                in_test, in_poll = child.name.startswith("test_"), False
            fault = _fault(child, constants, sleeps=test and not polls, bounds=not caught)
            if fault and not any(MARK in line for line in _lines_of(child, lines)):
                yield child.lineno, fault  # type: ignore[attr-defined]
            yield from walk(child, in_test, in_poll, caught or _catches(child))

    yield from walk(tree, False, False, False)


def _lines_of(node: ast.AST, lines: list[str]) -> list[str]:
    return lines[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]


def _fault(node: ast.AST, constants: dict[str, float], *, sleeps: bool, bounds: bool) -> str:
    if sleeps and _sleeps(node):
        return "sleeps: wait with until(), or check with stays()"
    bound = _bound(node, constants) if bounds else None
    if bound is not None and 0 < bound < BOUND_MIN_S:
        return f"waits {bound:g} s: less than a busy machine may take"
    return ""


def _sleeps(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in SLEEPS):
        return False
    seconds = node.args[0]
    return not (isinstance(seconds, ast.Constant) and seconds.value == 0)


def test_tests_wait_for_conditions_and_not_for_milliseconds() -> None:
    waits = [
        f"{path.relative_to(ROOT)}:{line} {fault}"
        for suite in SUITES
        for path in sorted((ROOT / suite).rglob("*.py"))
        for line, fault in faults(path.read_text())
    ]
    assert waits == [], f"see tests/support/waiting.py; a length that is meant: '{MARK} why'"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("await asyncio.sleep(0.1)", 1),
        ("await asyncio.sleep(0)", 0),
        ("time.sleep(PAUSE_S)", 1),
        ("time.sleep(1.5)  # time: a TTL of a second", 0),
        ("while not done:\n        time.sleep(0.1)", 0),
        ("for _ in range(9):\n        time.sleep(0.1)", 1),
        ("async with asyncio.timeout(5):\n        await x", 1),
        ("async with asyncio.timeout(PAUSE_S):\n        await x", 1),
        ("async with asyncio.timeout(60):\n        await x", 0),
        ("with pytest.raises(TimeoutError):\n        await asyncio.wait_for(x, 0.1)", 0),
        ("await asyncio.wait_for(x, timeout=1)", 1),
        ("end = time.monotonic() + 10", 1),
        ("thread.join(5)", 1),
    ],
)
def test_waits_for_a_length_of_time_are_recognized(body: str, count: int) -> None:
    source = f"PAUSE_S = 2.0\nasync def test_it():\n    {body}\n"
    assert len(list(faults(source))) == count
    assert list(faults("pytestmark = pytest.mark.virtual_time\n" + source)) == []
