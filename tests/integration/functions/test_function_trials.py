"""Functions are tried by REST and by command on messages that are there, and change nothing."""

import base64
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = pytest.mark.slow

CODE = """
def process(x):
    print("got", x)
    if x == 3:
        raise ValueError("three")
    return x * 2
"""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("instance")
    with running_instance(folder, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true") as made:
        until_blocking(
            lambda: made.rest("GET", "/admin/v3/functions/public/default")[0] == 200,
            "a worker",
            bound_s=120,
        )
        yield made


@pytest.fixture
def topic(client: pulsar.Client) -> str:
    name = f"persistent://public/default/tried-{uuid.uuid4().hex[:8]}"
    producer = client.create_producer(name)
    for number in range(6):
        producer.send(b"%d" % number)
    producer.close()
    return name


def tried(instance: Instance, body: dict[str, Any]) -> tuple[int, Any]:
    cluster = instance.rest("GET", "/api/v1/environment")[1]["cluster"]
    path = f"/api/v1/clusters/{cluster}/functions/function/public/default/attempt/try"
    return instance.rest("POST", path, body)


def body_of(topic: str, code: str = CODE, **more: Any) -> dict[str, Any]:
    config = {"className": "twice", "inputs": [topic], "output": f"{topic}-out"}
    encoded = base64.b64encode(code.encode()).decode()
    return {"config": config, "code": encoded, "file_name": "twice.py", **more}


def test_a_function_is_tried_on_the_last_messages_and_leaves_nothing(
    instance: Instance, topic: str
) -> None:
    status, answer = tried(instance, body_of(topic, messages=4))
    assert status == 200, answer
    rows = answer["messages"]
    assert [row["input"]["text"] for row in rows] == ["2", "3", "4", "5"]
    assert [row["output"] and row["output"]["text"] for row in rows] == ["4", None, "8", "10"]
    assert "ValueError: three" in rows[1]["error"]
    assert rows[0]["logs"] == ["got 2"]
    inside = topic.removeprefix("persistent://")
    stats = instance.rest("GET", f"/admin/v2/persistent/{inside}/stats")[1]
    assert (stats["msgInCounter"], stats["subscriptions"]) == (6, {})
    topics = instance.rest("GET", "/admin/v2/persistent/public/default")[1]
    assert f"{topic}-out" not in topics
    assert "attempt" not in instance.rest("GET", "/admin/v3/functions/public/default")[1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"code": base64.b64encode(b"import nowhere").decode()}, "No module named 'nowhere'"),
        ({"url": "https://example.com/x.py", "code": ""}, "url"),
        ({"messages": 51}, "messages"),
    ],
)
def test_a_trial_that_is_not_possible_is_refused_with_its_reason(
    instance: Instance, topic: str, change: dict[str, Any], reason: str
) -> None:
    body = body_of(topic) | change
    status, answer = tried(instance, {name: value for name, value in body.items() if value})
    assert status == 400
    assert reason in json.dumps(answer)


def test_the_command_prints_what_the_function_does(
    instance: Instance, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "twice.py"
    file.write_text(CODE)
    command = [sys.executable, "-m", "magnetar", "functions", "try", "attempt"]
    command += [str(file), "--class", "twice", "--input", topic, "--output", f"{topic}-out"]
    command += ["--messages", "2", "--admin-url", instance.http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "input    4\n  output   8\n  log      got 4" in done.stdout
