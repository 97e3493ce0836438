"""The calls of workers: refused as by Apache's broker where functions are off."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.rest.cluster import functions_workers
from gateway.rest.routes import routes

Call = Callable[..., Any]
CALLS = sorted(
    (method, route.template)
    for route in routes().values()
    if route.template in dict(functions_workers.ROUTES)
    for method in route.methods
)


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_without_a_worker_each_call_is_refused_as_by_apache(
    call: Call, method: str, path: str
) -> None:
    answer = call(method, f"{path}?workerId=w")
    assert answer.status == 409
    assert answer.json["reason"].startswith("Pulsar Function Worker is not enabled")


def test_a_drain_names_its_worker(call: Call) -> None:
    answer = call("PUT", "/admin/v2/worker/leader/drain")
    assert answer.status == 400
    assert answer.json["reason"].startswith("workerId: must name a worker")
