"""The two tables of docs/architecture.md about imports agree with the sources and the contracts of import-linter."""

import tomllib
from collections import defaultdict

import pytest

from tests.support.import_graph import PACKAGES, ROOT, graph

PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
ABOVE_ALL = ("magnetar", "tests")
"""Packages that may import all others, and that no other imports."""
LAYERS = [
    contract
    for contract in CONTRACTS
    if contract["type"] == "layers" and contract["containers"][0] not in ABOVE_ALL
]

PARTS_MAX = 10
"""Parts of a layer that the page names."""


def imports_row(package: str) -> str:
    """Return the page's row for a package: the parts of other packages that it imports."""
    parts: dict[str, set[str]] = defaultdict(set)
    for module, uses in graph().items():
        for other, part, *_ in (f"{used}.".split(".") for used in uses):
            if module.split(".")[0] == package != other:
                parts[other].add(part)
    cells = [f"`{other}.{{{', '.join(sorted(parts[other]))}}}`" for other in sorted(parts)]
    return f"| `{package}` | {', '.join(cells) or '–'} |"


@pytest.mark.parametrize("package", [name for name in PACKAGES if name not in ABOVE_ALL])
def test_the_page_lists_the_imports_of_each_package(package: str) -> None:
    assert imports_row(package) in PAGE.splitlines(), imports_row(package)


def layers_row(contract: dict[str, list[str]]) -> str:
    [container] = contract["containers"]
    return f"| `{container}` | {' > '.join(map(layer_text, contract['layers']))} |"


def layer_text(layer: str) -> str:
    """Return the parts of a layer; a layer of many is the one that has a package for each resource."""
    names = [f"`{name.strip()}`" for name in layer.replace(":", "|").split("|")]
    return ", ".join(names) if len(names) <= PARTS_MAX else "a package for each resource"


@pytest.mark.parametrize("contract", LAYERS, ids=lambda contract: contract["name"])
def test_the_page_lists_the_layers_of_each_package(contract: dict[str, list[str]]) -> None:
    assert layers_row(contract) in PAGE.splitlines(), layers_row(contract)


def test_nothing_shipped_imports_tests() -> None:
    assert not {
        name
        for name, uses in graph().items()
        if not name.startswith("tests.")
        for used in uses
        if used.startswith("tests.")
    }


def paths(page: str) -> set[str]:
    """Return the paths in backticks, outside of tables of layers and blocks of code."""
    prose = page.split("```")[::2]
    spans = {span for part in prose for line in part.splitlines() for span in line.split("`")[1::2]}
    tops = {entry.name for entry in ROOT.iterdir() if entry.is_dir()}
    named = {span for span in spans if span.split("/")[0] in tops and "/" in span}
    return {path for path in named if "<" not in path}


@pytest.mark.parametrize("page", ["architecture", "analyses", "extending", "glossary"])
def test_every_path_in_backticks_exists(page: str) -> None:
    named = paths((ROOT / "docs" / f"{page}.md").read_text())
    assert not {path for path in named if not any(ROOT.glob(path))}


def test_paths_are_found() -> None:
    assert len(paths(PAGE)) > 40


def test_the_page_is_read_in_a_quarter_of_an_hour() -> None:
    assert len(PAGE.encode()) <= 12 << 10
