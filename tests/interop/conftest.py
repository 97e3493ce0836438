"""The official client beside a broker and a bookie."""

import itertools
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.standalone import Standalone


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Shared by all tests of the session: use topics of your own."""
    instance = Standalone(tmp_path_factory.mktemp("standalone"))
    yield instance
    instance.close()


@pytest.fixture
def client(standalone: Standalone) -> Iterator[pulsar.Client]:
    """The official client, quiet."""
    made = pulsar.Client(
        standalone.url,
        operation_timeout_seconds=8,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    yield made
    made.close()


_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic nobody else uses."""
    return f"persistent://public/default/interop-{next(_numbers)}"
