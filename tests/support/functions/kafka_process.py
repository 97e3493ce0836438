"""Apache Kafka's server for tests: one node of the version that the benchmarks compare with."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.systems.kafka import HOME, SETTINGS, VERSION, jars
from tests.bench.systems.sides import output_of, server
from tests.support.ports import free_ports


def kafka_is_there() -> bool:
    """Return whether the jars were fetched; ``tests.bench.systems.kafka.jars`` does it, from Maven."""
    return (HOME / f"kafka-{VERSION}").is_dir()


@contextmanager
def running_kafka() -> Iterator[str]:
    """Run a node for the length of the block; yield its address."""
    java = ["java", "-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{jars()}/*"]
    with tempfile.TemporaryDirectory(prefix="magnetar-kafka-") as folder:
        work = Path(folder)
        port, controller = free_ports(2)
        settings = work / "server.properties"
        text = SETTINGS.format(port=port, controller=controller, folder=work / "data")
        settings.write_text(f"{text}group.initial.rebalance.delay.ms=0\n")
        identity = ("-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(settings))
        output_of([*java, "kafka.tools.StorageTool", "format", *identity])
        with server([*java, "kafka.Kafka", str(settings)], port, work / "log"):
            yield f"127.0.0.1:{port}"
