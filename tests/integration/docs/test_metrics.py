"""The page of metrics lists the families that a running instance serves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents.reference.metrics_page import COMMAND, PAGE, page, served
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.proxy.process import ProxyProcess, variables_of

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as made:
        yield made


def test_the_page_of_metrics_is_fresh(instance: Instance, tmp_path: Path) -> None:
    proxy = ProxyProcess(tmp_path, variables_of(instance))
    proxy.start()
    try:
        text = page(served(instance, proxy))
    finally:
        proxy.stop()
    assert text.splitlines() == PAGE.read_text().splitlines(), f"run {COMMAND}"
