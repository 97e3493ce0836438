"""The documentation's commands as a reader types them: a page in an empty folder, beside an instance like a new one."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.docs.terminal import Terminal, missing_program, write_programs
from tests.support.documents.pages import Page, pages
from tests.support.instance import Instance, running_instance

pytestmark = [pytest.mark.slow]

PAGES = [page for page in pages() if page.is_run]


class Instances:
    """Instances of the kinds that pages need, started by the first page that needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, Instance] = {}
        self._stack = ExitStack()
        self._count = 0

    def of(self, kind: str) -> Instance:
        """Return an instance of the kind. A page that stops parts of one has it for itself."""
        if kind == "cluster":
            return self._start(bookies=3, brokers=2)
        if kind not in self._started:
            self._started[kind] = self._start(secure=kind == "secure")
        if kind == "plain":
            empty(self._started[kind])
        return self._started[kind]

    def close(self) -> None:
        self._stack.close()

    def _start(self, **options: Any) -> Instance:
        self._count += 1
        folder = self._folder / str(self._count)
        return self._stack.enter_context(running_instance(folder, **options))


def empty(instance: Instance) -> None:
    """Delete the topics, namespaces and tenants that the pages before created."""
    for tenant in instance.rest("GET", "/admin/v2/tenants")[1]:
        for namespace in instance.rest("GET", f"/admin/v2/namespaces/{tenant}")[1]:
            if namespace == "public/default":
                for domain in ("persistent", "non-persistent"):
                    empty_namespace(instance, domain, namespace)
            elif tenant != "pulsar":
                instance.rest("DELETE", f"/admin/v2/namespaces/{namespace}?force=true")
        if tenant not in ("public", "pulsar"):
            instance.rest("DELETE", f"/admin/v2/tenants/{tenant}?force=true")


def empty_namespace(instance: Instance, domain: str, namespace: str) -> None:
    parted = instance.rest("GET", f"/admin/v2/{domain}/{namespace}/partitioned")[1]
    for topic in parted:
        path = topic.replace("://", "/")
        instance.rest("DELETE", f"/admin/v2/{path}/partitions?force=true&deleteSchema=true")
    for topic in instance.rest("GET", f"/admin/v2/{domain}/{namespace}")[1]:
        path = topic.replace("://", "/")
        instance.rest("DELETE", f"/admin/v2/{path}?force=true&deleteSchema=true")


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instances]:
    made = Instances(tmp_path_factory.mktemp("pages"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_programs(tmp_path_factory.mktemp("programs") / "bin")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_it_says(
    instances: Instances, programs: Path, tmp_path: Path, page: Page
) -> None:
    if (program := missing_program(page)) is not None:
        pytest.skip(f"this machine has no {program}, which the page uses")
    Terminal(instances.of(page.instance), tmp_path, programs).run(page)
