"""All brokers are replaced by others on other ports while instances run: processing continues, and each input counts
once."""

from collections.abc import Iterator
from contextlib import closing

import pulsar
import pytest

from tests.support.functions.worker_processes import (
    FAST,
    WORKER,
    BrokerBeside,
    Publisher,
    backlog_of,
    contents,
    instances_of,
    send_form,
)
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CODE = "def process(x):\n    return x\n"
FOUND_S = 120.0


@pytest.fixture(scope="module", params=["process", "thread"])
def instance(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instance]:
    settings = {
        **FAST,
        "MAGNETAR_FUNCTIONS_WORKER_FUNCTION_RUNTIME": request.param,
        "MAGNETAR_METADATA_STORE_SESSION_TIMEOUT_MILLIS": "4000",
    }
    with running_instance(tmp_path_factory.mktemp("replaced"), **settings) as made:
        yield made


def published_on(publisher: Publisher) -> None:
    """Return when more was published."""
    until = publisher.stored + 300
    until_blocking(lambda: publisher.stored > until, "more messages", bound_s=FOUND_S)


def owner_of(instance: Instance, topic: str) -> str:
    """Return the service URL of the broker that serves a topic."""
    inside = topic.removeprefix("persistent://")
    status, answer = instance.rest("GET", f"/lookup/v2/topic/persistent/{inside}")
    assert status == 200, answer
    return str(answer["brokerUrl"])


def client_of(*urls: str) -> pulsar.Client:
    hosts = ",".join(url.removeprefix("pulsar://") for url in urls)
    return pulsar.Client(f"pulsar://{hosts}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def test_instances_follow_brokers_that_replace_all_others(instance: Instance) -> None:
    place = "public/replaced"
    assert instance.rest("PUT", f"/admin/v2/namespaces/{place}")[0] == 204
    assert instance.rest("POST", f"/admin/v2/namespaces/{place}/deduplication", True)[0] == 204
    # What is acknowledged stays, to be compared.
    kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert instance.rest("POST", f"/admin/v2/namespaces/{place}/retention", kept)[0] == 204
    name, inside, out = f"{place}/copied", f"persistent://{place}/in", f"persistent://{place}/out"
    config = {
        "className": "users_function",
        "inputs": [inside],
        "output": out,
        "subscriptionPosition": "Earliest",
        "processingGuarantees": "EFFECTIVELY_ONCE",
    }
    until_blocking(
        lambda: send_form(instance, "POST", name, config, CODE)[0] == 204, "the function"
    )
    worker = instance.child(WORKER)["pid"]

    def runs() -> bool:
        status, answer = instance.rest("GET", f"/admin/v3/functions/{name}/status")
        return status == 200 and bool(answer["numRunning"])

    until_blocking(runs, "the instance", bound_s=FOUND_S)
    before = instances_of(worker)
    others = [BrokerBeside(instance, f"broker-beside-{number}") for number in range(2)]
    try:
        for other in others:
            until_blocking(lambda: other.ready, other.id, bound_s=FOUND_S)  # noqa: B023
        urls = [instance.url, *(other.url for other in others)]
        with closing(client_of(*urls)) as client:
            publisher = Publisher(client, inside)
            published_on(publisher)
            instance.control("stop", "broker-1")
            published_on(publisher)
            # The instance was sent to this one by the broker that left. Behind a kill it has to find the last one.
            next(other for other in others if other.url == owner_of(instance, inside)).kill()
            published_on(publisher)
            count = publisher.close()
            until_blocking(
                lambda: backlog_of(instance, inside, name) == 0, "all inputs", bound_s=FOUND_S
            )
            assert contents(client, inside) == list(range(count))
            assert contents(client, out) == list(range(count))
        assert instance.child(WORKER)["pid"] == worker
        assert instances_of(worker) == before, "no instance was started again"
        assert instance.rest("DELETE", f"/admin/v3/functions/{name}", timeout_s=60)[0] == 204
    finally:
        for other in others:
            other.close()
