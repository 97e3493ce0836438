"""A command imports what it needs and nothing else: the start of each is felt."""

import subprocess
import sys

import pytest

from tests.support.import_graph import ROOT

PROGRAM = """
import sys
from magnetar.command.main import group
try:
    group.main({arguments!r}, standalone_mode=False)
except BaseException:
    pass
print("modules", *sys.modules)
"""


def modules(*arguments: str) -> set[str]:
    """Return the modules that a command imports."""
    code = PROGRAM.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def below(names: set[str], *packages: str) -> set[str]:
    return {name for name in names if name.startswith(packages)}


def test_the_help_imports_neither_the_engine_nor_django() -> None:
    assert below(modules("--help"), "engine", "gateway", "django", "asyncio", "google") == set()


@pytest.mark.parametrize("name", ["produce", "consume", "tail", "doctor"])
def test_the_help_of_a_command_imports_no_engine(name: str) -> None:
    assert below(modules(name, "--help"), "engine", "gateway", "django", "google") == set()


def test_publishing_imports_no_server() -> None:
    imported = modules("produce", "t", "m", "--url", "pulsar://127.0.0.1:1")
    assert below(imported, "engine.client") != set()
    servers = ("engine.broker", "engine.ledger", "engine.metadata", "gateway", "django")
    assert below(imported, *servers, "cryptography", "h11") == set()
