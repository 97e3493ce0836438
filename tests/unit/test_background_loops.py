"""No background loop of the engine, and no thread of the gateway, ends at an unexpected exception.

A bookie's loops may: a failed task ends the process, which is started again.
"""

import ast
from collections.abc import Iterator

from tests.support.import_graph import ROOT

BROAD = {"Exception", "BaseException"}
ALLOWED = {
    # It is started again after a pause, and its exceptions are raised in its callers.
    "engine/managed/cursors/persister.py::_run",
}


ALLOWED_THREADS = {
    # The functions that it calls handle every exception: entries that are not written are refused.
    "admin_ui/audit/audit_writer.py::_work",
}


def endless(work: ast.AsyncFunctionDef) -> Iterator[ast.While]:
    """Yield the loops of ``work`` that only an exception or a return ends."""
    for node in ast.walk(work):
        if isinstance(node, ast.While) and getattr(node.test, "value", None) is True:
            yield node


def survives(loop: ast.While) -> bool:
    """Return whether the loop handles every exception of its body."""
    return any(
        isinstance(handler.type, ast.Name) and handler.type.id in BROAD
        for node in loop.body
        if isinstance(node, ast.Try)
        for handler in node.handlers
    )


def unguarded(tree: ast.Module) -> Iterator[str]:
    """Yield the coroutines that are spawned as they are and whose endless loop one exception ends."""
    works = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "spawn":
            continue
        for given in node.args:
            called = given.func if isinstance(given, ast.Call) else None
            work = works.get(getattr(called, "attr", ""))
            if work is not None and not all(survives(loop) for loop in endless(work)):
                yield work.name


def test_each_loop_is_restarted_or_handles_every_exception() -> None:
    loops = {
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted((ROOT / "engine").rglob("*.py"))
        for name in unguarded(ast.parse(path.read_text()))
    }
    assert loops == ALLOWED


def fragile_threads(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that are the work of a thread, here or in a class of threads, and have a loop which one
    exception ends."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    targets = [
        getattr(word.value, "attr", getattr(word.value, "id", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Thread"
        for word in node.keywords
        if word.arg == "target"
    ]
    targets += [
        "run"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(getattr(base, "attr", "") == "Thread" for base in node.bases)
    ]
    for name in targets:
        loops = [] if name not in functions else ast.walk(functions[name])
        if not all(survives(node) for node in loops if isinstance(node, ast.While)):
            yield name


def test_no_thread_of_the_gateway_ends_at_an_exception() -> None:
    threads = {
        f"{path.relative_to(ROOT)}::{name}"
        for package in ("gateway", "admin_ui")
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in fragile_threads(ast.parse(path.read_text()))
    }
    assert threads == ALLOWED_THREADS


def test_a_loop_that_one_exception_ends_is_found() -> None:
    source = """
class Loops:
    def start(self):
        self.tasks.spawn("a", self.bare())
        self.tasks.spawn("b", self.guarded())
        self.tasks.spawn("c", restarting("c", self.bare))
    async def bare(self):
        while True:
            try:
                await self.work()
            except OSError:
                pass
    async def guarded(self):
        while True:
            try:
                await self.work()
            except Exception:
                pass
"""
    assert list(unguarded(ast.parse(source))) == ["bare"]
    source = """
class Heart(threading.Thread):
    def run(self):
        while not stopping.wait(1):
            self.work()
def fragile():
    while True:
        try:
            work()
        except OSError:
            pass
def robust():
    while True:
        try:
            work()
        except Exception:
            pass
threading.Thread(target=fragile).start()
threading.Thread(target=robust).start()
"""
    assert list(fragile_threads(ast.parse(source))) == ["fragile", "run"]
