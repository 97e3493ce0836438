"""The official client of a file's instance."""

from collections.abc import Iterator

import pulsar
import pytest

from tests.support.instance import Instance


@pytest.fixture
def client(instance: Instance) -> Iterator[pulsar.Client]:
    made = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield made
    made.close()
