"""Fixtures of the tests that run pages."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.docs.instances_of_pages import Instances
from tests.integration.docs.terminal import Terminal, missing_program, write_programs
from tests.support.documents.pages import Page


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instances]:
    made = Instances(tmp_path_factory.mktemp("pages"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``magnetar`` and ``curl`` for the pages."""
    return write_programs(tmp_path_factory.mktemp("programs") / "bin")


@pytest.fixture
def run_page(instances: Instances, programs: Path, tmp_path: Path) -> Callable[[Page], None]:
    """A function that runs a page; it skips the test where a program of the page is missing."""

    def run(page: Page) -> None:
        if (program := missing_program(page)) is not None:
            pytest.skip(f"this machine has no {program}, which the page uses")
        Terminal(instances.of(page.instance), tmp_path, programs).run(page)

    return run
