"""The graph of imports, read from the sources."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs", "magnetar", "tests")


def generated(path: Path) -> bool:
    return "_pb2" in path.name or "migrations" in path.parts


@cache
def sources() -> dict[str, ast.Module]:
    """Return the syntax tree of each of the project's modules, by name."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    # Finalizers that run in the middle of a parse make CPython 3.11 fail with a SystemError (python/cpython#106905).
    gc.disable()
    try:
        return {
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
                ".__init__"
            ): ast.parse(path.read_bytes())
            for path in paths
            if not generated(path)
        }
    finally:
        # Otherwise each collection in a later test walks millions of nodes for seconds, and connections time out.
        gc.freeze()
        gc.enable()


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield all that a module imports. Imports in functions and for the type checker count, since a reader has to know
    them as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"a relative import of {node.module}"
            yield from (f"{node.module}.{name.name}" for name in node.names)


@cache
def graph() -> dict[str, set[str]]:
    """Return the project's modules that each module imports."""
    known = sources().keys()
    imports: dict[str, set[str]] = {}
    for module, tree in sources().items():
        names = {name if name in known else name.rpartition(".")[0] for name in imported(tree)}
        imports[module] = names & known - {module}
    return imports
