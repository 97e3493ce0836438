"""Functions of an instance with ``--secure``: in TLS, with a role of their own, and what hostile code of one can do."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.interop.identity.conftest import Secured
from tests.support.access.callers import token_by
from tests.support.instance import Instance
from tests.support.waiting import until_blocking

RECEIVE_MS = 60_000
ROLE = "functions-public"
"""The role of functions that a superuser creates in a tenant without administrators."""
HOSTILE = """
import json, os, pulsar
from pulsar import Function

def attempt(work):
    try:
        return work()
    except BaseException as error:
        return "refused: " + type(error).__name__ + " " + str(error)

class Hostile(Function):
    def process(self, input, context):
        context.incr_counter("seen", 1)
        return json.dumps({
            "said": input,
            "names": sorted(os.environ),
            "worker": attempt(lambda: open(f"/proc/{os.getppid()}/environ").read()),
            "elsewhere": attempt(lambda: context.get_pulsar_client().create_producer(
                context.get_user_config_value("elsewhere")).send(b"x")),
            "stranger": attempt(lambda: pulsar.Client(
                context.get_user_config_value("plain"), operation_timeout_seconds=5,
            ).create_producer(context.get_output_topic()).send(b"x")),
        })
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secure")
    made = Instance(folder, secure=True, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true")
    made.start()
    try:
        yield Secured(made)
    finally:
        made.stop()


def called(secured: Secured, method: str, path: str, *options: str) -> Any:
    header = ("-H", f"@{secured.files.header}")
    status, body = secured.curl(path, "-X", method, *header, *options)
    assert status in (200, 204), (method, path, status, body)
    return json.loads(body) if body else None


def token_of(secured: Secured, role: str) -> str:
    return token_by(secured.files.token_key.read_bytes(), role)


def as_json(value: Any) -> tuple[str, ...]:
    return "-H", "Content-Type: application/json", "-d", json.dumps(value)


def test_a_function_runs_in_tls_with_its_own_role_and_has_no_other_rights(
    secured: Secured, tmp_path: Path
) -> None:
    namespace = f"public/functions-{uuid.uuid4().hex[:8]}"
    called(secured, "PUT", f"/admin/v2/namespaces/{namespace}")
    grant = f"/admin/v2/namespaces/{namespace}/permissions/{ROLE}"
    called(secured, "POST", grant, *as_json(["produce", "consume"]))
    inside, out = (f"persistent://{namespace}/{end}" for end in ("in", "out"))
    config = {
        "className": "hostile.Hostile",
        "inputs": [inside],
        "output": out,
        "subscriptionPosition": "Earliest",
        "userConfig": {
            "elsewhere": "persistent://public/default/not-granted",
            "plain": secured.instance.url,
        },
    }
    code = tmp_path / "hostile.py"
    code.write_text(HOSTILE)
    function = f"/admin/v3/functions/{namespace}/hostile"
    parts = (
        "-F",
        f"functionConfig={json.dumps(config)};type=application/json",
        "-F",
        f"data=@{code}",
    )
    header = ("-H", f"@{secured.files.header}")
    until_blocking(
        lambda: secured.curl("/admin/v2/worker/cluster/leader", *header)[0] == 200, "the worker"
    )
    called(secured, "POST", function, *parts)
    client = secured.client(pulsar.AuthenticationToken(secured.token))
    try:
        consumer = client.subscribe(out, "test", initial_position=pulsar.InitialPosition.Earliest)
        client.create_producer(inside).send(b"hello")
        shown = json.loads(consumer.receive(RECEIVE_MS).data())
        assert shown["said"] == "hello"
        assert shown["names"] == ["HOME", "LANG", "PATH", "TMPDIR", "TZ"]
        assert "refused" in shown["elsewhere"]
        assert "refused" in shown["stranger"]
        # Its process may have the worker's user: what is secret is in files, none of it in the environment.
        tokens = [
            path.read_text().strip() for path in secured.files.authority.parent.glob("*.token")
        ]
        assert len(tokens) > 1
        assert [token for token in tokens if token in shown["worker"]] == []

        def counted() -> bool:
            status, body = secured.curl(f"{function}/state/seen", "-H", f"@{secured.files.header}")
            return status == 200 and json.loads(body)["numberValue"] == 1

        until_blocking(counted, "the state by TLS")
        status = called(secured, "GET", f"{function}/status")
        assert status["numRunning"] == 1
    finally:
        client.close()
        called(secured, "DELETE", function)


PLAIN = """
def process(input):
    return input + "!"
"""


def test_an_update_by_another_role_runs_with_that_role_and_says_which_right_is_missing(
    secured: Secured, tmp_path: Path
) -> None:
    namespace = f"public/roles-{uuid.uuid4().hex[:8]}"
    called(secured, "PUT", f"/admin/v2/namespaces/{namespace}")
    rights = {"deploys": ["functions", "produce", "consume"], "updates": ["functions"]}
    headers = {}
    for role, actions in rights.items():
        grant = f"/admin/v2/namespaces/{namespace}/permissions/{role}"
        called(secured, "POST", grant, *as_json(actions))
        headers[role] = ("-H", f"Authorization: Bearer {token_of(secured, role)}")
    config = {
        **{"className": "plain", "inputs": [f"persistent://{namespace}/in"]},
        **{"output": f"persistent://{namespace}/out"},
    }
    code = tmp_path / "plain.py"
    code.write_text(PLAIN)
    function = f"/admin/v3/functions/{namespace}/plain"
    parts = ("-F", f"functionConfig={json.dumps(config)};type=application/json")
    file = ("-F", f"data=@{code}")
    until_blocking(
        lambda: (
            secured.curl("/admin/v2/worker/cluster/leader", "-H", f"@{secured.files.header}")[0]
            == 200
        ),
        "the worker",
    )

    def status() -> Any:
        (row,) = called(secured, "GET", f"{function}/status")["instances"]
        return row["status"]

    try:
        for method, role in (("POST", "deploys"), ("PUT", "deploys")):
            answer = secured.curl(function, "-X", method, *headers[role], *parts, *file)
            assert answer == (204, "")
            until_blocking(lambda: status()["running"], status)
        assert secured.curl(function, "-X", "PUT", *headers["updates"], *parts, *file)[0] == 204
        until_blocking(lambda: "refuses the role updates" in status()["error"], status)
        assert "Traceback" not in status()["error"]
        # A superuser's update keeps the role of the function.
        called(secured, "PUT", function, *parts, *file)
        until_blocking(lambda: "refuses the role updates" in status()["error"], status)
        assert secured.curl(function, "-X", "PUT", *headers["deploys"], *parts, *file)[0] == 204
        until_blocking(lambda: status()["running"], status)
    finally:
        called(secured, "DELETE", function)
