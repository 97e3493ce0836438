"""Two servers side by side: Apache Pulsar as published, and an instance of ours."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench.contenders import apache, apache_missing
from tests.instance import running_instance


class Side:
    """Where one of the two answers."""

    def __init__(self, name: str, url: str, http: str) -> None:
        self.name = name
        self.url = url
        self.http = http

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of a REST call."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.http + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def put(self, path: str, body: Any = None) -> int:
        return self.call("PUT", path, body)[0]

    def post(self, path: str, body: Any = None) -> int:
        return self.call("POST", path, body)[0]


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(Apache's, ours); skipped where Apache cannot be had."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    work = tmp_path_factory.mktemp("oracle")
    with apache(work) as theirs, running_instance(work / "ours") as instance:
        yield Side("apache", theirs.url, theirs.http), Side("ours", instance.url, instance.http)
