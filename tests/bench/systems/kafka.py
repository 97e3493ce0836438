"""Apache Kafka: one node, its own load programs; topics with ``flush.messages=1`` and without."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from tests.bench.figures import Figures
from tests.bench.systems import outputs
from tests.bench.systems.sides import MissingError, Side, Work, found, output_of, server
from tests.support.ports import free_ports

VERSION = "4.2.0"
HOME = Path(os.environ.get("SYSTEMS_HOME", "~/.cache/magnetar-systems")).expanduser()
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{0}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{0}</version></dependency>
</dependencies></project>
"""
SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}
offsets.topic.replication.factor=1
"""
WARM_UP = 100_000
_numbers = count()


def jars() -> Path:
    """Return the folder with Kafka's jars, fetched if needed. Raises MissingError."""
    found("java", "sudo apt install default-jre-headless")
    folder = HOME / f"kafka-{VERSION}"
    if not folder.is_dir():
        maven = found("mvn", "sudo apt install maven")
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as work:
            pom = Path(work, "pom.xml")
            pom.write_text(POM.format(VERSION))
            copy = ("dependency:copy-dependencies", f"-DoutputDirectory={work}/lib")
            try:
                output_of([maven, "-q", "-B", "-f", str(pom), *copy, "-DincludeScope=runtime"])
            except RuntimeError as error:
                raise MissingError(f"Kafka {VERSION} cannot be had: {error}") from error
            # Renamed last, so that an interrupted fetch never leaves what looks complete.
            Path(work, "lib").rename(folder)
    return folder


@contextmanager
def kafka(work: Path) -> Iterator[list[Side]]:
    """Run a node for the length of the block. Raises MissingError."""
    java = ["java", "-Xms256m", "-Xmx512m", "-cp", f"{jars()}/*"]
    port, controller = free_ports(2)
    settings = work / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=controller, folder=work / "data"))
    identity = ("-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(settings))
    output_of([*java, "kafka.tools.StorageTool", "format", *identity])
    with server([*java, "kafka.Kafka", str(settings)], port, work / "log") as (pid, start_s):
        yield [
            Side(f"Kafka, {name}", [pid], start_s, _works(java, port, options), share)
            for name, options, share in (
                ("synced", ("--config", "flush.messages=1"), 0.5),
                ("not synced", (), 3.0),
            )
        ]


def _works(java: Sequence[str], port: int, options: Sequence[str]) -> dict[str, Work]:
    def call(name: str, *arguments: str) -> str:
        address = ("--bootstrap-server", f"127.0.0.1:{port}")
        return output_of([*java, f"org.apache.kafka.tools.{name}", *address, *arguments])

    def publish(
        size: int, messages: int, rate: int = -1, *properties: str
    ) -> tuple[str, Figures, int]:
        topic = f"bench-{next(_numbers)}"
        call("TopicCommand", "--create", "--topic", topic, *options)
        total = messages + min(WARM_UP, messages)
        numbers = ("--num-records", str(total), "--warmup-records", str(total - messages))
        sizes = ("--record-size", str(size), "--throughput", str(rate))
        more = ("--command-property", "acks=all", *properties)
        output = call("ProducerPerformance", "--topic", topic, *numbers, *sizes, *more)
        return topic, outputs.kafka_producer(output), total

    def many(size: int, messages: int) -> tuple[Figures, int]:
        _, figures, total = publish(size, messages)
        return {"messages/s": figures["messages/s"]}, total

    def single(messages: int) -> tuple[Figures, int]:
        _, figures, total = publish(1024, messages // 10, -1, "batch.size=0", "linger.ms=0")
        return {"messages/s": figures["messages/s"]}, total

    def one(messages: int) -> tuple[Figures, int]:
        _, figures, total = publish(1024, min(messages, 1000), 200, "linger.ms=0")
        return {"mean ms": figures["mean ms"]}, total

    def consume(messages: int) -> tuple[Figures, int]:
        topic, _, total = publish(1024, messages)
        numbers = ("--topic", topic, "--num-records", str(total))
        return outputs.kafka_consumer(call("ConsumerPerformance", *numbers)), 0

    return {
        "publish 100 B": partial(many, 100),
        "publish 1 KB": partial(many, 1024),
        "publish 1 KB, no batches": single,
        "one in flight 1 KB": one,
        "consume 1 KB": consume,
    }
