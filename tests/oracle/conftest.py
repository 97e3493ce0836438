"""Two servers side by side: Apache Pulsar as published, and an instance of ours."""

from collections.abc import Iterator

import pytest

from tests.bench.contenders import apache, apache_missing
from tests.instance import running_instance


class Side:
    """Where one of the two answers."""

    def __init__(self, name: str, url: str, http: str) -> None:
        self.name = name
        self.url = url
        self.http = http


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(Apache's, ours); skipped where Apache cannot be had."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    work = tmp_path_factory.mktemp("oracle")
    with apache(work) as theirs, running_instance(work / "ours") as instance:
        yield Side("apache", theirs.url, theirs.http), Side("ours", instance.url, instance.http)
