"""Attacks on the worker: hostile messages in its queue, parameters of Spark, files of runs, secrets in messages."""

import re
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Producer, Queue
from kombu.exceptions import ContentDisallowed
from kombu.serialization import registry

from engine.base.errors import InvalidField, NotFound
from gateway.celery import app
from gateway.jobs import background, outputs, services, tasks
from gateway.jobs.models import JobRun, RunState
from gateway.standalone.plan import HOST, InstanceOptions, children
from gateway.standalone.settings import PROGRAM
from spark_jobs.catalogue import ANALYSES
from tests.support.admin.gateway_client import Gateway

ROOT = Path(__file__).parents[2]


class Bomb:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("kind", ["pickle", "application/x-python-serialize", "yaml", "text/plain"])
def test_a_message_that_is_no_json_is_refused_unparsed(kind: str, tmp_path: Path) -> None:
    import pickle

    mark = tmp_path / "unpickled"
    body = pickle.dumps(Bomb(mark))
    if kind == "pickle":
        kind = registry.name_to_type["pickle"]
    elif kind == "yaml":
        kind = registry.name_to_type["yaml"]
        body = f"!!python/object/apply:pathlib.Path.touch [{mark}]".encode()
    refused: list[Exception] = []
    received: list[Any] = []
    with Connection("memory://") as connection:
        channel = connection.channel()
        queue = Queue("hostile", channel=channel)
        queue.declare()
        Producer(channel).publish(
            body, routing_key="hostile", content_encoding="binary", content_type=kind
        )
        # The worker's own class of consumers, which accepts what the settings of the application accept.
        with app.amqp.TaskConsumer(
            channel,
            queues=[queue],
            on_decode_error=lambda message, error: refused.append(error),
            callbacks=[lambda value, message: received.append(value)],
        ):
            connection.drain_events(timeout=5)
    assert received == []
    assert [type(error) for error in refused] == [ContentDisallowed]
    assert not mark.exists()


def test_tasks_and_results_are_json_and_results_are_not_kept() -> None:
    conf = app.conf
    assert set(conf.accept_content) == {"json"}
    assert set(conf.result_accept_content or conf.accept_content) == {"json"}
    assert (conf.task_serializer, conf.result_serializer) == ("json", "json")
    assert conf.result_backend is None


def test_the_worker_has_its_own_tasks_alone() -> None:
    own = {name for name in app.tasks if not name.startswith("celery.")}
    assert own == {services.EXECUTE, services.WARM, background.TASK}


def test_background_work_runs_no_other_module() -> None:
    with pytest.raises(ValueError, match="no app has background work"):
        tasks.work_in_background("os", "x")


@pytest.mark.parametrize(
    "name", ["os.system", "jobs.execute", "../x", "__class__", "", "topic-profile "]
)
def test_only_declared_analyses_are_launched(name: str) -> None:
    with pytest.raises(InvalidField, match="there is no"):
        services.check_parameters(analysis=name, parameters={"topic": "t"})


@pytest.mark.parametrize(
    "arguments", [("r", "1"), (7, 1), ({"id": "r"}, 1), (["r"], 1), ("r", None)]
)
def test_arguments_of_other_types_reach_no_run(
    arguments: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "claim", lambda **_: pytest.fail("claimed"))
    with pytest.raises(TypeError):
        tasks.execute(*arguments)


CONFIGURATION = (
    "spark.driver.extraJavaOptions",
    "spark.jars",
    "spark.submit.pyFiles",
    "conf",
    "--conf",
    "master",
    "output_dir",
    "metadata.url",
    "cluster",
    "__proto__",
)


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize("name", CONFIGURATION)
def test_a_run_configures_nothing_of_spark(analysis: str, name: str) -> None:
    schema = ANALYSES[analysis].parameters
    given = dict.fromkeys(schema.get("required", []), "t") | {name: "http://evil.example/x.jar"}
    with pytest.raises(InvalidField, match="parameters"):
        services.check_parameters(analysis=analysis, parameters=given)


SHELL = re.compile(
    r"shell\s*=\s*True|\bos\.(system|popen)\(|create_subprocess_shell|getoutput\(|\b(eval|exec)\(|\bpickle\b.*load"
    r"|yaml\.(unsafe_|full_)?load\("
)


def test_no_program_uses_a_shell_or_makes_code_of_texts() -> None:
    packages = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs")
    files = [path for name in packages for path in (ROOT / name).rglob("*.py")]
    assert [str(path) for path in files if SHELL.search(path.read_text())] == []


def test_the_parts_behind_the_gateway_are_on_loopback_and_have_no_pages(tmp_path: Path) -> None:
    options = InstanceOptions(data_dir=tmp_path, settings=PROGRAM.load({}, tmp_path))
    made = {
        child.name: child
        for child in children(options, java_home=tmp_path, classpath="", redis="redis-server")
    }
    assert HOST == options.host == "127.0.0.1"
    redis, spark = made["redis"].argv, [*made["spark"].argv]
    assert redis[redis.index("--bind") + 1] == HOST
    settings = dict(
        word.split("=", 1) for word in spark if word.startswith("spark.") and "=" in word
    )
    assert settings["spark.ui.enabled"] == "false"
    bound = [
        settings[key]
        for key in settings
        if key.endswith(("bindAddress", "binding.address", "host"))
    ]
    assert bound == [HOST] * 3
    assert spark[spark.index("--master") + 1] == "local[2]"
    assert "spark.eventLog.enabled" not in settings
    # No monitor of Celery, history server or standalone master is among the parts.
    assert {name.partition("-")[0] for name in made} == {
        *("zookeeper", "redis", "bookie", "broker", "functions", "gateway", "worker", "spark")
    }


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../secret_key",
        "..%2fsecret_key",
        "%2e%2e%2fsecret_key",
        "/etc/passwd",
        "a.parquet%00",
    ],
)
def test_a_download_is_a_file_of_its_run(call: Gateway, name: str) -> None:
    for run in ("r1", "..", "%2e%2e"):
        answer = call("GET", f"/api/v1/runs/{run}/downloads/{name}")
        assert answer.status in (400, 404)


def test_a_run_has_the_files_that_its_row_lists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = JobRun(
        id="ab", attempt=2, state=RunState.SUCCEEDED, downloads=[{"name": "a.parquet", "bytes": 1}]
    )
    monkeypatch.setattr(services, "get", lambda run_id: run)
    monkeypatch.setattr(outputs, "root", lambda: tmp_path)
    (tmp_path / "ab.2").mkdir()
    for path in (
        tmp_path / "ab.2" / "a.parquet",
        tmp_path / "ab.2" / "other",
        tmp_path / "secret_key",
    ):
        path.touch()
    assert services.file_of(run_id="ab", name="a.parquet") == tmp_path / "ab.2" / "a.parquet"
    for name in (
        "other",
        "../secret_key",
        "",
        ".",
        "../ab.2/a.parquet",
        str(tmp_path / "secret_key"),
    ):
        with pytest.raises(NotFound):
            services.file_of(run_id="ab", name=name)


def test_a_message_to_the_worker_is_an_id_and_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        app, "send_task", lambda name, arguments, **_: sent.append((name, arguments))
    )
    assert services.enqueue(run_id="ab", attempt=3)
    assert sent == [("jobs.execute", ("ab", 3))]
