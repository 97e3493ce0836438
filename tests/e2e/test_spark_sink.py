"""Real Spark writes topics: tasks that run again, a flow from topic to topic through Spark Connect, and a standalone
cluster."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.support.instance import ROOT, Instance
from tests.support.ports import free_ports

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
ONCE = "public/spark-sink"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}


@pytest.fixture(scope="module")
def namespace(instance: Instance) -> str:
    assert instance.rest("PUT", f"/admin/v2/namespaces/{ONCE}")[0] == 204
    assert instance.rest("POST", f"/admin/v2/namespaces/{ONCE}/deduplication", True)[0] == 204
    return ONCE


@contextmanager
def program(name: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program of ``sink_programs``; it and its children are killed at the end."""
    command = [sys.executable, "-m", "tests.support.spark.sink_programs", name, *arguments]
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def numbers(instance: Instance, topic: str) -> Counter[int]:
    """Return how often each number is in a topic."""
    client = pulsar.Client(instance.url, logger=SILENT)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    counts: Counter[int] = Counter()
    while reader.has_message_available():
        counts[int(reader.read_next(10_000).data())] += 1
    client.close()
    return counts


@pytest.mark.timeout(600)
def test_rows_of_failing_tasks_and_of_a_repeated_write_are_stored_once(
    instance: Instance, namespace: str, tmp_path: Path
) -> None:
    topic = f"persistent://{namespace}/batch"
    log = tmp_path / "log"
    with program("batch", instance.url, topic, "20000", log=log) as process:
        output, _ = process.communicate(timeout=500)
    assert '{"done": true}' in output, log.read_text()[-5000:]
    assert "planted failure" in log.read_text()
    assert numbers(instance, topic) == Counter(range(20_000))


@pytest.fixture(scope="module")
def spark(instance: Instance) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from spark_jobs.pulsar_source import register

    instance.control("start", "spark")
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{instance.ports['SPARK']}").create()
    register(session)
    yield session
    session.stop()


@pytest.mark.timeout(600)
def test_a_topic_flows_into_another_by_spark_connect(
    instance: Instance, namespace: str, spark: Any, tmp_path: Path
) -> None:
    source, sink = (f"persistent://{namespace}/{name}" for name in ("flow-in", "flow-out"))
    client = pulsar.Client(instance.url, logger=SILENT)
    client.subscribe(source, "keep").close()
    producer = client.create_producer(source)
    stream = (
        spark.readStream.format("pulsar")
        .options(topic=source, metadataUrl=f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}")
        .options(startingOffsets="earliest")
        .load()
        .select("key", "value", "properties", "event_time")
    )
    writer = stream.writeStream.format("pulsar").options(
        serviceUrl=instance.url,
        topic=sink,
        checkpointLocation=str(tmp_path / "flow"),
        deliveryGuarantee="exactly-once",
    )
    for part in range(2):
        for n in range(500 * part, 500 * part + 500):
            producer.send_async(
                b"%d" % n,
                lambda *_: None,
                partition_key=f"k{n % 5}",
                properties={"n": str(n)},
                event_timestamp=1000 + n,
            )
        producer.flush()
        flow(writer)
    assert numbers(instance, sink) == Counter(range(1000))
    reader = client.create_reader(sink, pulsar.MessageId.earliest)
    for n in range(1000):
        message = reader.read_next(10_000)
        assert int(message.data()) == n
        assert (message.partition_key(), message.properties()) == (f"k{n % 5}", {"n": str(n)})
        assert message.event_timestamp() == 1000 + n
    client.close()


def flow(writer: Any) -> None:
    """Run a query until it has written all there is; again where Spark gave up its Python on a busy machine."""
    from pyspark.errors import StreamingQueryException

    while True:
        try:
            assert writer.trigger(availableNow=True).start().awaitTermination(200)
            return
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise


@pytest.mark.timeout(600)
def test_a_standalone_cluster_of_spark_writes_and_reads_a_topic(
    instance: Instance, namespace: str, tmp_path: Path
) -> None:
    topic, log = f"persistent://{namespace}/cluster", tmp_path / "log"
    metadata = f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"
    secret = tmp_path / "token"
    secret.write_text("s3cret-of-a-file")
    secret.chmod(0o600)
    with standalone(tmp_path) as master:
        given = (master, instance.url, topic, metadata, str(secret), str(tmp_path / "events"))
        with program("cluster", *given, log=log) as process:
            output, _ = process.communicate(timeout=500)
    assert "rows 10000" in output, log.read_text()[-5000:]
    assert numbers(instance, topic) == Counter(range(10_000))
    shown = [path for path in tmp_path.rglob("*") if path.is_file() and path != secret]
    assert any("events" in path.parts for path in shown)
    assert not [path for path in shown if b"s3cret-of-a-file" in path.read_bytes()]


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a master of Spark and two workers of one core, from the wheel, on loopback; yield the master's URL."""
    import pyspark

    port, page, *pages = free_ports(4)
    home = Path(pyspark.__path__[0])
    master = f"spark://127.0.0.1:{port}"
    parts = [["master.Master", "--port", str(port), "--webui-port", str(page)]]
    parts += [
        [
            *("worker.Worker", "--webui-port", str(number), "--cores", "1", "--memory", "600m"),
            *("--work-dir", str(folder / f"work-{number}"), master),
        ]
        for number in pages
    ]
    environment = ENVIRONMENT | {"SPARK_DAEMON_MEMORY": "128m", "SPARK_LOCAL_IP": "127.0.0.1"}
    started = []
    try:
        for name, *arguments in parts:
            command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
            with (folder / f"{name}.log").open("ab") as file:
                started.append(
                    subprocess.Popen(
                        [*command, "--host", "127.0.0.1", *arguments],
                        env=environment,
                        stdout=file,
                        stderr=file,
                        start_new_session=True,
                    )
                )
        yield master
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
