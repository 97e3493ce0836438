"""A cluster whose functions run on our worker and on Apache's: whichever leads, changes by either interface succeed,
and instances on both do the work of one function."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pulsar
import pytest

from engine.broker.dispatch.choose.active import choose_active, rank
from tests.bench.contenders import apache_missing
from tests.crash.load import quiet_client
from tests.oracle.functions.apache_functions_worker import (
    ApacheFunctionsWorker,
    apache_functions_worker,
    worker_port,
)
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part, text_part
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "persistent://public/default/"
COORDINATION = "persistent://public/functions/coordinate"
OUR_ID = "functions-worker"
CODE = b"""from pulsar import Function


class Exclaim(Function):
    def process(self, input, context):
        return f"{input}!"
"""
MESSAGES = 60
WAIT_S = 120.0
BROKEN = "public/default/broken"
REFUSED = f"""
GET functions/public/default/missing
GET functions/public/default/missing/status
GET functions/public/default/missing/download
DELETE functions/public/default/missing
POST functions/public/default/missing/trigger data=hi
POST functions/{BROKEN}/trigger topic=elsewhere
POST functions/{BROKEN}/trigger data=hi&topic=elsewhere
POST functions/{BROKEN}/trigger data=hi
GET functions/{BROKEN}/9/status
GET functions/{BROKEN}/9/stats
POST functions/{BROKEN}/9/stop
POST functions/{BROKEN}/9/restart
GET sinks/{BROKEN}
DELETE sources/{BROKEN}
"""
"""Calls that both refuse: a method, a path below /admin/v3 and the fields of a form."""


class Shared(NamedTuple):
    """Our instance, Apache's worker, and which of both leads."""

    instance: Instance
    apache: ApacheFunctionsWorker
    leader: str

    @property
    def leading_id(self) -> str:
        return OUR_ID if self.leader == "ours" else self.apache.id

    def http(self, side: str) -> str:
        return self.instance.http if side == "ours" else self.apache.http


def rest(
    http: str,
    method: str,
    path: str,
    body: bytes = b"",
    content_type: str = "",
    *,
    token: str = "",
    trusted: ssl.SSLContext | None = None,
) -> tuple[int, Any]:
    """Return status and body of a call, behind a redirect to the leader; the body is text when it is not JSON."""
    headers = {"Content-Type": content_type} if content_type else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(http + path, body or None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=75, context=trusted) as reply:
            status, text = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read()
        if status == 307:
            target = urlsplit(error.headers["Location"])
            at = f"{target.scheme}://{target.netloc}"
            return rest(at, method, path, body, content_type, token=token, trusted=trusted)
    try:
        return status, json.loads(text or b"null")
    except ValueError:
        return status, text.decode(errors="replace")


def done(http: str, method: str, path: str, body: bytes = b"", content_type: str = "") -> Any:
    """Return the body of a call that succeeded."""
    status, answer = rest(http, method, path, body, content_type)
    assert status in (200, 204), (method, http + path, status, answer)
    return answer


def apaches_id(our_label: str, port: int, leader: str) -> str:
    """Return an id for Apache's worker with which brokers choose the ``leader``."""
    for number in range(1000):
        label = f"apache{number}:127.0.0.1:{port}"
        members = sorted(((0, name) for name in (our_label, label)), key=lambda m: rank(*m))
        chosen = choose_active(members, -1, COORDINATION)
        assert chosen is not None
        if (members[chosen][1] == our_label) == (leader == "ours"):
            return f"apache{number}"
    raise AssertionError("no id makes it the leader")


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    if (reason := apache_missing()) is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    ours = tmp_path_factory.mktemp("ours")
    with running_instance(ours, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true") as made:
        until_blocking(
            lambda: rest(made.http, "GET", "/admin/v2/worker/cluster/leader")[0] == 200,
            "our worker leads",
            bound_s=WAIT_S,
        )
        yield made


@pytest.fixture(scope="module", params=["ours", "apache"])
def shared(
    request: pytest.FixtureRequest, instance: Instance, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shared]:
    port = worker_port()
    our_label = f"{OUR_ID}:127.0.0.1:{instance.ports['HTTP']}"
    with apache_functions_worker(
        tmp_path_factory.mktemp("apache") / "worker",
        apaches_id(our_label, port, request.param),
        port,
        broker_url=instance.url,
        web_url=instance.http,
        zk=f"127.0.0.1:{instance.ports['ZOOKEEPER']}",
        # The default is the worker itself, which redirects to the leader.
        **({"functionWebServiceUrl": instance.http} if request.param == "apache" else {}),
    ) as worker:
        made = Shared(instance, worker, request.param)

        def led() -> bool:
            answers = [rest(http, "GET", "/admin/v2/worker/cluster/leader") for http in both(made)]
            ids = [body["workerId"] for status, body in answers if status == 200]
            ready = rest(instance.http, "GET", "/admin/v2/worker/cluster/leader/ready")
            return ids == [made.leading_id] * 2 and ready == (200, True)

        until_blocking(led, f"{made.leading_id} leads", bound_s=WAIT_S)
        # What a failed test has left would take a share of the instances.
        for name in done(instance.http, "GET", "/admin/v3/functions/public/default"):
            done(instance.http, "DELETE", path_of(name))
        yield made


def both(shared: Shared) -> tuple[str, str]:
    return shared.instance.http, shared.apache.http


def path_of(name: str, more: str = "") -> str:
    return f"/admin/v3/functions/public/default/{name}{more}"


def deploy(http: str, method: str, name: str, parallelism: int) -> None:
    config = {
        **{"className": "ex.Exclaim", "runtime": "PYTHON", "py": "ex.py", "autoAck": True},
        # Apache's compares names of an update as they are given.
        **{"inputs": [TOPIC + f"{name}-in"], "output": TOPIC + f"{name}-out"},
        **{"parallelism": parallelism, "subscriptionPosition": "Earliest"},
    }
    body = form(json_part("functionConfig", config), file_part(CODE))
    done(http, method, path_of(name), body, FORM_TYPE)


def workers_of(http: str, name: str) -> list[str]:
    """Return the workers of the running instances, sorted."""
    status, answer = rest(http, "GET", path_of(name, "/status"))
    if status != 200:
        return []
    rows = [row["status"] for row in answer["instances"]]
    return sorted(row["workerId"] for row in rows if row["running"])


def wait_for_workers(http: str, name: str, *expected: str) -> None:
    until_blocking(
        lambda: workers_of(http, name) == sorted(expected),
        f"{name} runs on {expected}",
        bound_s=WAIT_S,
    )


def results(shared: Shared, name: str) -> list[str]:
    """Publish messages to a function and return its sorted results."""
    client = quiet_client(shared.instance.url)
    try:
        run = str(time.time_ns())
        consumer = client.subscribe(
            f"{name}-out", run, initial_position=pulsar.InitialPosition.Earliest
        )
        producer = client.create_producer(f"{name}-in", batching_enabled=False)
        for number in range(MESSAGES):
            producer.send(f"{run}-{number:03}".encode())
        received: set[str] = set()
        while len(received) < MESSAGES:
            text = consumer.receive(60_000).data().decode()
            if text.startswith(run):
                received.add(text.removeprefix(f"{run}-"))
    finally:
        client.close()
    return sorted(received)


def received_by(http: str, name: str) -> list[int]:
    status = done(http, "GET", path_of(name, "/status"))
    return [row["status"]["numReceived"] for row in status["instances"]]


@pytest.mark.parametrize("side", ["ours", "apache"])
def test_a_function_of_either_interface_runs_on_both_workers(shared: Shared, side: str) -> None:
    name = f"f-{shared.leader}-{side}"
    http, other = shared.http(side), shared.http("apache" if side == "ours" else "ours")
    deploy(http, "POST", name, 2)
    for asked in (http, other):
        assert name in done(asked, "GET", "/admin/v3/functions/public/default")
        wait_for_workers(asked, name, OUR_ID, shared.apache.id)
    rounds = 0

    def both_worked() -> bool:
        nonlocal rounds
        assert results(shared, name) == [f"{number:03}!" for number in range(MESSAGES)]
        rounds += 1
        return all(received_by(http, name))

    until_blocking(both_worked, "both instances have received messages", bound_s=WAIT_S)
    for asked in (http, other):
        assert sum(received_by(asked, name)) == rounds * MESSAGES
    done(other, "POST", path_of(name, "/stop"))
    for asked in (http, other):
        wait_for_workers(asked, name)
    done(http, "POST", path_of(name, "/start"))
    wait_for_workers(other, name, OUR_ID, shared.apache.id)
    # Apache's worker waits for a call to itself that it does not answer meanwhile, unless it calls the gateway.
    done(shared.instance.http, "POST", path_of(name, "/restart"))
    wait_for_workers(http, name, OUR_ID, shared.apache.id)
    done(http, "POST", path_of(name, "/1/stop"))
    done(other, "POST", path_of(name, "/0/stop"))
    wait_for_workers(http, name)
    done(other, "POST", path_of(name, "/start"))
    wait_for_workers(http, name, OUR_ID, shared.apache.id)
    deploy(other, "PUT", name, 1)
    until_blocking(lambda: len(workers_of(http, name)) == 1, "one is left", bound_s=WAIT_S)
    assert results(shared, name) == [f"{number:03}!" for number in range(MESSAGES)]
    body = form(text_part("data", "hi"))
    for asked in (http, other):
        assert done(asked, "POST", path_of(name, "/trigger"), body, FORM_TYPE) == "hi!"
    done(other, "DELETE", path_of(name))
    for asked in (http, other):
        until_blocking(lambda url=asked: rest(url, "GET", path_of(name))[0] == 404, "it is gone")


def test_both_show_the_same_workers_and_assignments(shared: Shared) -> None:
    name = f"g-{shared.leader}"
    deploy(shared.instance.http, "POST", name, 2)
    for http in both(shared):
        cluster = done(http, "GET", "/admin/v2/worker/cluster")
        assert {worker["workerId"] for worker in cluster} == {OUR_ID, shared.apache.id}
        wait_for_workers(http, name, OUR_ID, shared.apache.id)
    ours, theirs = (done(http, "GET", "/admin/v2/worker/assignments") for http in both(shared))
    assert {worker: set(keys) for worker, keys in ours.items()} == {
        worker: set(keys) for worker, keys in theirs.items()
    }
    for http in both(shared):
        done(http, "PUT", "/admin/v2/worker/rebalance")
    done(shared.apache.http, "DELETE", path_of(name))


def test_both_refuse_alike(shared: Shared) -> None:
    deploy(shared.instance.http, "POST", "broken", 1)
    deploy_more = form(
        json_part("functionConfig", {"className": "ex.E", "inputs": ["a", "b"], "py": "ex.py"}),
        file_part(CODE),
    )
    done(shared.instance.http, "POST", path_of("two"), deploy_more, FORM_TYPE)
    differences = []
    for line in [*REFUSED.strip().splitlines(), "POST functions/public/default/two/trigger data=x"]:
        method, path, *given = line.split(" ")
        fields = [field.split("=") for field in given[0].split("&")] if given else []
        body = form(*(text_part(name, value) for name, value in fields))
        kind = FORM_TYPE if path.endswith("/trigger") else ""
        answers = []
        for http in both(shared):
            status, answer = rest(http, method, f"/admin/v3/{path}", body if kind else b"", kind)
            answers.append((status, answer.get("reason") if isinstance(answer, dict) else answer))
        if answers[0] != answers[1]:
            differences.append(f"{line}\n  ours   {answers[0]}\n  apache {answers[1]}")
    done(shared.instance.http, "DELETE", path_of("broken"))
    done(shared.instance.http, "DELETE", path_of("two"))
    assert not differences, "\n".join(differences)


def test_the_instances_of_apaches_worker_run_here_when_it_has_left(shared: Shared) -> None:
    """Stop a worker of Apache's: no test behind this one has it."""
    name = f"h-{shared.leader}"
    http = shared.instance.http
    deploy(http, "POST", name, 2)
    wait_for_workers(http, name, OUR_ID, shared.apache.id)
    shared.apache.stop()
    wait_for_workers(http, name, OUR_ID, OUR_ID)
    assert results(shared, name) == [f"{number:03}!" for number in range(MESSAGES)]
    done(http, "DELETE", path_of(name))
