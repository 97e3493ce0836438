"""Apache Kafka's server for tests: one node of the version that the benchmarks compare with."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.systems.kafka import HOME, SETTINGS, VERSION, jars
from tests.bench.systems.sides import output_of, server
from tests.support.net.certificates import Files
from tests.support.ports import free_ports


def kafka_is_there() -> bool:
    """Return whether the jars were fetched; ``tests.bench.systems.kafka.jars`` does it, from Maven."""
    return (HOME / f"kafka-{VERSION}").is_dir()


SECURE = """listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SASL_SSL://127.0.0.1:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={work}/key.pem
ssl.truststore.type=PEM
ssl.truststore.location={client_ca}
ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
 user_{user}="{password}";
"""


class KafkaLogin(NamedTuple):
    """The parts of a secure listener: its certificate, the authority of clients' certificates, and one user."""

    files: Files
    client_ca: str
    user: str
    password: str


@contextmanager
def running_kafka(login: KafkaLogin | None = None) -> Iterator[str]:
    """Run a node for the length of the block; yield its address, with ``login`` that of its secure listener."""
    java = ["java", "-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{jars()}/*"]
    with tempfile.TemporaryDirectory(prefix="magnetar-kafka-") as folder:
        work = Path(folder)
        port, controller, secure = free_ports(3)
        settings = work / "server.properties"
        text = SETTINGS.format(port=port, controller=controller, folder=work / "data")
        if login is not None:
            pem = "".join(Path(path).read_text() for path in (login.files.key, login.files.cert))
            (work / "key.pem").write_text(pem)
            ports = {"port": port, "controller": controller, "secure": secure}
            text += SECURE.format(work=work, **ports, **login._asdict())
        settings.write_text(f"{text}group.initial.rebalance.delay.ms=0\n")
        identity = ("-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(settings))
        output_of([*java, "kafka.tools.StorageTool", "format", *identity])
        with server([*java, "kafka.Kafka", str(settings)], port, work / "log"):
            yield f"127.0.0.1:{port if login is None else secure}"
