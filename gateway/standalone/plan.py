"""Which processes make an instance, on which ports, with which environment. Pure: values in, specifications out."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gateway.standalone.ports import BROKER_STEP, DEFAULTS, refusal
from gateway.standalone.settings import StandaloneSettings

HOST = "127.0.0.1"
COUNT_MAX = 16
WORKER_KEY = "magnetar:worker"
"""A worker sets it in Redis once a second, to its process id, for as long as it takes work."""
# Java reads names of files by the locale; under plain C it finds none with other letters than ASCII.
JAVA_LOCALE = {"LC_ALL": "C.UTF-8"}
# Large receive buffers come and go all the time on the hot path: keep malloc from returning them to the kernel.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
    "MALLOC_ARENA_MAX": "2",
}


LISTENER = "{listener}"


class PlanError(Exception):
    """An option is out of range, or ports meet; the message names them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """How to tell that a child serves.

    ``zookeeper`` asks srvr, ``redis`` asks PING, which is refused while it loads its file, ``worker`` asks Redis at
    ``port`` whether this very process set WORKER_KEY, ``tcp`` connects, ``http`` wants status 200.
    """

    kind: Literal["zookeeper", "redis", "worker", "tcp", "http", "alive"]
    port: int = 0
    path: str = "/"


@dataclass(frozen=True, slots=True)
class Child:
    """One supervised process. ``needs`` are children that must be ready before it starts.

    ``serves``: what of the instance is missing without it; an instance is ready before such a child is, and stays
    without it. Empty: nothing is ready without it.

    ``listener``: a port to which the supervisor listens, for this child and others; its descriptor is put in the place
    of ``LISTENER`` in ``argv``.
    """

    name: str
    argv: tuple[str, ...]
    ports: Mapping[str, int]
    ready: Ready
    needs: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    on_demand: bool = False
    serves: str = ""
    listener: int = 0
    stop_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the settings ask for; ``spark_remote`` is somebody else's Spark Connect server."""

    data_dir: Path
    settings: StandaloneSettings
    host: str = HOST
    bookies: int = 1
    brokers: int = 1
    spark_remote: str = ""

    @property
    def gateways(self) -> int:
        return self.settings.instance.gateways

    def ports(self) -> dict[str, int]:
        """As given, else the default plus ``port_offset``. Raises PlanError."""
        named = self.settings.instance.ports()
        offset = self.settings.offset.port_offset
        if problem := refusal(offset, self.bookies, self.brokers, named, self.gateways):
            raise PlanError(problem)
        return {name: named.get(name, default + offset) for name, default in DEFAULTS.items()}


def zookeeper_config(data_dir: Path, host: str, port: int) -> str:
    """Contents of ZooKeeper's configuration file: one node, synced writes, snapshots cleaned up."""
    return (
        f"tickTime=500\ndataDir={_property(str(data_dir))}\nclientPort={port}\nclientPortAddress={host}\n"
        "maxClientCnxns=0\nmaxSessionTimeout=60000\nadmin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\nautopurge.snapRetainCount=3\nautopurge.purgeInterval=24\n"
    )


def _property(text: str) -> str:
    """A value of a properties file, which Java reads as Latin-1 with escapes of UTF-16."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(
        chr(code) if 0x20 < code < 0x7F and code != 0x5C else f"\\u{code:04x}" for code in codes
    )


def misread_by_java(path: Path) -> Path:
    """Return what Java made of ``path`` where it was written to a properties file as UTF-8."""
    return Path(os.fsencode(path).decode("latin-1"))


# For ZooKeeper and Spark. The loggers named here warn of what is as we want it: no limit of connections, no native
# Hadoop, a data source registered again by each run, a folder of Spark's own bookkeeping passed over.
LOG4J = (
    "rootLogger.level=warn\nrootLogger.appenderRef.c.ref=C\nappender.c.type=Console\nappender.c.name=C\n"
    "appender.c.layout.type=PatternLayout\nappender.c.layout.pattern=%d{ISO8601} %p %c{1} %m%n\n"
) + "".join(
    f"logger.q{i}.name={name}\nlogger.q{i}.level=error\n"
    for i, name in enumerate(
        (
            "org.apache.zookeeper.server.ServerCnxnFactory",
            "org.apache.hadoop.util.NativeCodeLoader",
            "org.apache.spark.sql.execution.datasources.v2.python.DataSourceManager",
            "org.apache.spark.sql.execution.datasources.DataSource",
        )
    )
)


def children(
    options: Options, *, java_home: Path, classpath: str, redis: str, spark_home: Path
) -> list[Child]:
    """All children of an instance in start order. Raises PlanError."""
    for name, count in (("--bookies", options.bookies), ("--brokers", options.brokers)):
        if not 1 <= count <= COUNT_MAX:
            raise PlanError(f"{name} must be from 1 to {COUNT_MAX}, not {count}")
    data, host = options.data_dir, options.host
    ports = options.ports()
    zk_port, redis_port = ports["ZOOKEEPER"], ports["REDIS"]
    http_port, spark_port = ports["HTTP"], ports["SPARK"]
    broker_port, broker_http = ports["BROKER"], ports["BROKER_HTTP"]
    bookie_port, bookie_http = ports["BOOKIE"], ports["BOOKIE_HTTP"]
    shared = {
        "MAGNETAR_DATA_DIR": str(data),
        "MAGNETAR_METADATA_URL": f"zk:{host}:{zk_port}",
        "MAGNETAR_ZOOKEEPER_PORT": str(zk_port),
        "MAGNETAR_BROKER_PORT": str(broker_port),
        "MAGNETAR_HTTP_PORT": str(http_port),
        "MAGNETAR_REDIS_URL": f"redis://{host}:{redis_port}/0",
        "MAGNETAR_CONTROL_SOCKET": str(control_socket(data)),
        "MAGNETAR_PORT_OFFSET": "0",
        "SPARK_REMOTE": options.spark_remote or f"sc://{host}:{spark_port}",
        "PYTHONUNBUFFERED": "1",
    }
    # Three copies where there are three bookies, confirmed by most of them: one may be lost, and writing goes on.
    quorum = min(options.bookies, 3)
    out = [
        Child(
            "zookeeper",
            (
                str(java_home / "bin" / "java"),
                *("-Xmx256m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *(
                    f"-Dlog4j2.configurationFile={data}/log4j2.properties",
                    "-cp",
                    classpath,
                ),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                str(data / "zookeeper" / "zoo.cfg"),
            ),
            {"zookeeper": zk_port},
            Ready("zookeeper", zk_port),
            env={**shared, **JAVA_LOCALE},
        ),
        Child(
            "redis",
            (
                *(redis, "--port", str(redis_port), "--bind", host, "--dir", str(data / "redis")),
                *("--appendonly", "yes", "--save", "", "--daemonize", "no"),
            ),
            {"redis": redis_port},
            Ready("redis", redis_port),
            env=shared,
        ),
    ]
    bookie_names = [f"bookie-{i + 1}" for i in range(options.bookies)]
    for i, name in enumerate(bookie_names):
        argv = (
            *(sys.executable, "-m", "bookie", "--data-dir", str(data / name)),
            *("--port", str(bookie_port + i), "--status-port", str(bookie_http + i)),
            *("--metadata", shared["MAGNETAR_METADATA_URL"]),
        )
        own_ports = {"bookie": bookie_port + i, "http": bookie_http + i}
        ready = Ready("http", bookie_http + i, "/ready")
        # The id is bound to the disks; by default it holds the port, which may be another one tomorrow.
        # The same goes for where the data lies.
        own = {"MAGNETAR_BOOKIE_BOOKIE_ID": name, "MAGNETAR_BOOKIE_MOVABLE_DATA": "true"}
        env = {**shared, **MALLOC, **own}
        out.append(Child(name, argv, own_ports, ready, ("zookeeper",), env))
    for i in range(options.brokers):
        port, http = broker_port + BROKER_STEP * i, broker_http + BROKER_STEP * i
        env = {
            **shared,
            **MALLOC,
            "MAGNETAR_BROKER_PORT": str(port),
            "MAGNETAR_BROKER_HTTP_PORT": str(http),
            "MAGNETAR_MANAGED_LEDGER_DEFAULT_ENSEMBLE_SIZE": str(quorum),
            "MAGNETAR_MANAGED_LEDGER_DEFAULT_WRITE_QUORUM": str(quorum),
            "MAGNETAR_MANAGED_LEDGER_DEFAULT_ACK_QUORUM": str(quorum // 2 + 1),
        }
        name = f"broker-{i + 1}"
        own_ports = {"pulsar": port, "http": http}
        ready = Ready("http", http, "/ready")
        command = (sys.executable, "-m", "engine", "broker")
        out.append(Child(name, command, own_ports, ready, (*bookie_names,), env, stop_timeout_s=20))
    gateways = _gateways(options, host, http_port, ports["GATEWAY_HTTP"], shared)
    out += gateways
    worker = (
        *(
            sys.executable,
            "-m",
            "celery",
            "--quiet",
            "-A",
            "gateway",
            "worker",
            "--concurrency",
            "2",
        ),
        *("--loglevel", "WARNING", "--without-mingle", "--without-gossip"),
    )
    out.append(
        Child(
            "worker",
            worker,
            {},
            Ready("worker", redis_port),
            ("redis", *(child.name for child in gateways)),
            shared,
            serves="analyses",
        )
    )
    if not options.spark_remote:
        out.append(_spark(host, spark_port, data, java_home, spark_home, shared))
    _refuse_shared_ports(out)
    return out


def _gateways(
    options: Options, host: str, port: int, own_port: int, env: Mapping[str, str]
) -> list[Child]:
    """One on ``port``, or several that share it and have a port of their own each, by which they are told apart."""
    several = options.gateways > 1
    out = []
    for i in range(options.gateways):
        own = own_port + i if several else port
        argv = (
            *(sys.executable, "-m", "gateway.serve", "--host", host, "--port", str(own)),
            *(("--listener", LISTENER) if several else ()),
        )
        name = f"gateway-{i + 1}" if several else "gateway"
        ready = Ready("http", own, "/admin/v2/brokers/health")
        needs = ("zookeeper", "redis")
        out.append(
            Child(name, argv, {"http": own}, ready, needs, env, listener=port if several else 0)
        )
    return out


def _refuse_shared_ports(made: Sequence[Child]) -> None:
    users: dict[int, str] = {child.listener: "gateways (http)" for child in made if child.listener}
    for child in made:
        for label, port in child.ports.items():
            user = f"{child.name} ({label})"
            if port in users:
                raise PlanError(f"port {port} is that of {users[port]} and of {user}")
            users[port] = user


def _spark(
    host: str, port: int, data: Path, java_home: Path, spark_home: Path, shared: Mapping[str, str]
) -> Child:
    """The Spark Connect server; started on demand, since it takes ten seconds and a gigabyte."""
    # what is heavy is done in Python: Java's second compiler and its collector's threads would only compete with it
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": host,
        "spark.driver.host": host,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": data / "spark" / "warehouse",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={data}/log4j2.properties {quick}",
        "spark.python.daemon.module": "spark_jobs.daemon",
        "spark.connect.progress.reportInterval": "200ms",
        # the workers' session outlives any pause: Spark never opens a session of the same id again
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.scheduler.mode": "FAIR",
        # the results are small: two hundred tiny tasks would cost more than the work
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "1g",
    }
    argv = (
        *(str(spark_home / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        "spark-internal",
    )
    env = {
        **shared,
        **JAVA_LOCALE,
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(spark_home),
        "SPARK_LAUNCHER_OPTS": quick,
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(data / "spark" / "tmp"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    env.pop("SPARK_REMOTE")
    return Child("spark", argv, {"connect": port}, Ready("tcp", port), (), env, on_demand=True)


def control_socket(data_dir: Path) -> Path:
    """Where a running instance listens for ``status``, ``stop`` and the like; reached by ``control.reachable``."""
    return data_dir / "control.sock"
