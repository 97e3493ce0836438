"""The official client and a broker with a bookie, for all tests of this folder."""

import itertools
from collections.abc import Iterator

import pulsar
import pytest

from tests.support.standalone import Standalone


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A broker and a bookie that all tests of the session share: a test uses its own topics."""
    instance = Standalone(tmp_path_factory.mktemp("standalone"))
    yield instance
    instance.close()


@pytest.fixture
def client(standalone: Standalone) -> Iterator[pulsar.Client]:
    """The official client; it logs errors only."""
    new_client = pulsar.Client(
        standalone.url,
        operation_timeout_seconds=8,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    yield new_client
    new_client.close()


_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """Name of a topic that only this test uses."""
    return f"persistent://public/default/interop-{next(_numbers)}"
