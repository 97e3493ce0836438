"""The specifications of an instance's processes: command lines, ports, environment, readiness."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gateway.standalone.ports import BROKER_STEP, DEFAULTS, refusal
from gateway.standalone.settings import StandaloneSettings

if TYPE_CHECKING:
    from gateway.standalone.secure import SecureFiles

HOST = "127.0.0.1"
COUNT_MAX = 16
CLUSTER = "standalone"
"""The cluster of an instance that has one."""
CONFIGURATION = "/configuration"
"""Root of the nodes that the clusters of an instance share."""
METADATA = ("embedded", "zookeeper")
"""Kinds of metadata servers; the first is the default."""
WORKER_KEY = "magnetar:worker"
"""The key in Redis that a worker sets once a second to its process id while it accepts tasks."""
# Java decodes file names by the locale; with the locale C it finds no file with other than ASCII letters.
JAVA_LOCALE = {"LC_ALL": "C.UTF-8"}
# Large receive buffers are allocated and freed continuously, so malloc must not return them to the kernel each time.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
    "MALLOC_ARENA_MAX": "2",
}


ROOT = Path(__file__).resolve().parents[2]
"""The folder of our packages: the checkout, or ``magnetar/lib`` of an installed wheel."""
# Without -P, a folder of the same name where the instance was started would be imported instead of our package.
PYTHON = (sys.executable, "-P", "-m")
"""Begin of a command line that runs a module of ours; its environment has ``python_path``."""


def python_path() -> dict[str, str]:
    """Return the variable by which children import our packages, before those of other distributions."""
    given = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{ROOT}{os.pathsep}{given}" if given else str(ROOT)}


BROKER_PORTS = {
    "BROKER": ("pulsar", "MAGNETAR_BROKER_PORT"),
    "BROKER_HTTP": ("http", "MAGNETAR_BROKER_HTTP_PORT"),
    "BROKER_TLS": ("pulsar+ssl", "MAGNETAR_BROKER_SERVICE_PORT_TLS"),
    "BROKER_HTTP_TLS": ("https", "MAGNETAR_BROKER_HTTP_PORT_TLS"),
}
"""Labels and variables of a broker's ports by their names in ``ports.DEFAULTS``."""
EXTERNAL_REDIS = tuple(
    f"MAGNETAR_REDIS_{name}"
    for name in (
        "USER",
        "PASSWORD",
        "TLS_TRUST_CERTS_FILE_PATH",
        "TLS_CERTIFICATE_FILE_PATH",
        "TLS_KEY_FILE_PATH",
    )
)
"""Variables of a Redis that is not the instance's own."""
SECURE_PORTS = frozenset({"BROKER_TLS", "BROKER_HTTP_TLS", "HTTPS"})
LISTENER, HTTPS_LISTENER = "{listener}", "{https listener}"
"""Words of a command line that stand for the descriptors of listening sockets."""
ANALYSES, FUNCTIONS = "analyses", "functions"
FAIR_FILE = "fairscheduler.xml"
FAIR = """<?xml version="1.0"?>
<allocations>
  <pool name="default">
    <schedulingMode>FAIR</schedulingMode>
  </pool>
</allocations>
"""
"""Spark's pools: analyses are all of the default one, whose jobs would wait for each other without this file."""
"""Functions that an instance lacks without Redis, the worker or Spark, and without the functions worker."""


class PlanError(Exception):
    """An option is out of range, or two parts have the same port. The message names them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The check by which a child is ready.

    ``zookeeper`` sends ``srvr``. ``redis`` sends PING, which is refused while Redis loads its file. ``worker`` checks
    at the Redis on ``port`` that the process itself has set WORKER_KEY. ``tcp`` connects, ``http`` expects status 200.
    """

    kind: Literal["zookeeper", "redis", "worker", "tcp", "http", "alive"]
    port: int = 0
    path: str = "/"
    password_file: Path | None = None
    """File of the password that Redis asks for."""


@dataclass(frozen=True, slots=True)
class Child:
    """The specification of a supervised process."""

    name: str
    argv: tuple[str, ...]
    ports: Mapping[str, int]
    ready: Ready
    cluster: str | None = CLUSTER
    """Name of the cluster that it is a part of; None: of all clusters of an instance that has several."""
    needs: tuple[str, ...] = ()
    """Children that must be ready before it starts; those on demand are started for it."""
    will_need: tuple[str, ...] = ()
    """Children on demand that are started with it where a request says that it is needed; it does not wait for them."""
    env: Mapping[str, str] = field(default_factory=dict)
    on_demand: bool = False
    """True: a request starts it, not the start of the instance."""
    serves: str = ""
    """The function that the instance lacks without the child. The instance is ready before such a child is, and stays
    so without it. Empty for a child without which the instance is not ready."""
    listeners: Mapping[str, int] = field(default_factory=dict)
    """Ports on which the supervisor listens for this child and others, by the words of ``argv`` that the descriptors
    replace."""
    stop_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster of an instance. ``name`` is empty where the instance has one."""

    name: str
    number: int
    """Place among the clusters, from 0."""
    folder: Path
    """The folder of its bookies' data."""

    @property
    def prefix(self) -> str:
        """The begin of the names of its parts."""
        return f"{self.name}." if self.name else ""


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """The options of the command line, and the settings. ``spark_remote`` is an external Spark Connect server.

    ``metadata`` is ``embedded`` for the engine's own metadata server, ``zookeeper`` for Apache ZooKeeper's. There are
    ``bookies`` and ``brokers`` for each of ``clusters``; without names the instance has one cluster.
    """

    data_dir: Path
    settings: StandaloneSettings
    host: str = HOST
    bookies: int = 1
    brokers: int = 1
    proxy: bool = False
    """True: the instance also has a proxy in front of its brokers."""
    spark_remote: str = ""
    metadata: str = METADATA[0]
    clusters: tuple[str, ...] = ()
    secure: "SecureFiles | None" = None
    """The files of an instance with TLS, authentication and authorization; None without."""

    @property
    def workers_on_demand(self) -> bool:
        """True: Redis and the worker start with the first analysis. Several gateways exchange events by Redis."""
        return self.gateways == 1

    @property
    def gateways(self) -> int:
        return self.settings.instance.gateways

    @property
    def members(self) -> list[Member]:
        """The clusters; the gateway's paths without a name are the first one's."""
        folder = self.data_dir / "clusters"
        named = [Member(name, i, folder / name) for i, name in enumerate(self.clusters)]
        return named or [Member("", 0, self.data_dir)]

    def ports(self) -> dict[str, int]:
        """Return all ports by name: as set, else the default plus ``port_offset``. Raises PlanError.

        The bookies and brokers of the second cluster follow those of the first, and so on.
        """
        named = self.settings.instance.ports()
        offset = self.settings.offset.port_offset
        count = len(self.members)
        counts = (self.bookies * count, self.brokers * count)
        if problem := refusal(offset, *counts, named, self.gateways):
            raise PlanError(problem)
        return {name: named.get(name, default + offset) for name, default in DEFAULTS.items()}


def zookeeper_config(data_dir: Path, host: str, port: int) -> str:
    """Return ZooKeeper's configuration file: one node, synced writes, old snapshots deleted."""
    return (
        f"tickTime=500\ndataDir={_property(str(data_dir))}\nclientPort={port}\nclientPortAddress={host}\n"
        "maxClientCnxns=0\nmaxSessionTimeout=60000\nadmin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\nautopurge.snapRetainCount=3\nautopurge.purgeInterval=24\n"
    )


def _property(text: str) -> str:
    """Return the encoding of a value in a properties file, which Java reads as Latin-1 with escapes of UTF-16."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return "".join(
        chr(code) if 0x20 < code < 0x7F and code != 0x5C else f"\\u{code:04x}" for code in codes
    )


def misread_by_java(path: Path) -> Path:
    """Return the path that Java read when ``path`` was written to a properties file as UTF-8."""
    return Path(os.fsencode(path).decode("latin-1"))


# For ZooKeeper and Spark. The loggers named here warn about intended conditions: no limit of connections, no native
# Hadoop, a data source that each run registers again, and an ignored folder of Spark's own files.
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
    options: InstanceOptions, *, java_home: Path, classpath: str, redis: str
) -> list[Child]:
    """Return all children of an instance. ``java_home`` and ``classpath`` are those of Apache ZooKeeper.

    A gateway and a broker wait by themselves for the servers that they use, so they start without them; only what
    would log that it cannot reach the metadata store waits for it. Raises PlanError.
    """
    for name, count in (("--bookies", options.bookies), ("--brokers", options.brokers)):
        if not 1 <= count <= COUNT_MAX:
            raise PlanError(f"{name} must be from 1 to {COUNT_MAX}, not {count}")
        if count * len(options.members) > COUNT_MAX:
            raise PlanError(
                f"{name} must be at most {COUNT_MAX // len(options.members)} for {len(options.members)} clusters:"
                f" an instance has at most {COUNT_MAX} of all clusters"
            )
    if options.secure and options.metadata == "zookeeper":
        raise PlanError(
            "--secure needs --metadata embedded: Apache ZooKeeper would serve every process of this machine"
        )
    data, host = options.data_dir, options.host
    ports = options.ports()
    zk_port, redis_port = ports["ZOOKEEPER"], ports["REDIS"]
    http_port, spark_port = ports["HTTP"], ports["SPARK"]
    shared = {
        "MAGNETAR_DATA_DIR": str(data),
        **_stores(options.members[0], host, zk_port),
        **_further_clusters(options, zk_port),
        "MAGNETAR_ZOOKEEPER_PORT": str(zk_port),
        "MAGNETAR_BROKER_PORT": str(ports["BROKER"]),
        "MAGNETAR_HTTP_PORT": str(http_port),
        "MAGNETAR_REDIS_URL": f"redis://{host}:{redis_port}/0",
        **dict.fromkeys(EXTERNAL_REDIS, ""),
        "MAGNETAR_CONTROL_SOCKET": str(control_socket(data)),
        "MAGNETAR_PORT_OFFSET": "0",
        "MAGNETAR_WORKERS_ON_DEMAND": str(options.workers_on_demand).lower(),
        # A token is sent without TLS to this name of the machine alone.
        "SPARK_REMOTE": options.spark_remote
        or f"sc://{'localhost' if options.secure else host}:{spark_port}",
        **python_path(),
        "PYTHONUNBUFFERED": "1",
        **(options.secure.environment() if options.secure else {}),
    }
    redis_config: tuple[str, ...] = ()
    redis_password: Path | None = None
    if options.secure:
        shared |= options.secure.of_metadata_clients()
        redis_config = (str(options.secure.redis_config),)
        redis_password = options.secure.redis_password
    gateways = _gateways(options, ports, shared)
    out = [
        _metadata(options, zk_port, java_home, classpath, shared),
        Child(
            "redis",
            (
                *(redis, *redis_config, "--port", str(redis_port), "--bind", host),
                *("--dir", str(data / "redis")),
                *("--appendonly", "yes", "--save", "", "--daemonize", "no"),
            ),
            {"redis": redis_port},
            Ready("redis", redis_port, password_file=redis_password),
            env=shared,
            on_demand=options.workers_on_demand,
            serves=ANALYSES if options.workers_on_demand else "",
        ),
        *(
            part
            for member in options.members
            for part in _of_cluster(
                options, member, ports, {**shared, **_stores(member, host, zk_port)}
            )
        ),
        *([_proxy(options, ports, shared)] if options.proxy else []),
        *gateways,
        _worker(options, redis_port, [child.name for child in gateways], shared),
    ]
    if not options.spark_remote:
        out.append(_spark(options, spark_port, shared))
    if options.clusters:
        out = [
            part if part.cluster in options.clusters else replace(part, cluster=None)
            for part in out
        ]
    _refuse_shared_ports(out)
    return out


def _stores(member: Member, host: str, port: int) -> dict[str, str]:
    """Return the variables of a cluster's stores, which are on one server.

    What the file says of other stores is for parts that run separately.
    """
    server = f"zk:{host}:{port}"
    urls = {"MAGNETAR_BOOKKEEPER_METADATA_SERVICE_URI": ""}
    if not member.name:
        return {
            "MAGNETAR_METADATA_URL": server,
            "MAGNETAR_CONFIGURATION_METADATA_STORE_URL": "",
            **urls,
        }
    return {
        "MAGNETAR_METADATA_URL": f"{server}/clusters/{member.name}",
        "MAGNETAR_CONFIGURATION_METADATA_STORE_URL": f"{server}{CONFIGURATION}",
        **urls,
        "MAGNETAR_CLUSTER_NAME": member.name,
    }


def _further_clusters(options: InstanceOptions, port: int) -> dict[str, str]:
    """Return the variable by which gateways and workers find the clusters after the first."""
    if not options.clusters:
        return {}
    stores = [_stores(member, options.host, port) for member in options.members[1:]]
    names = (
        "MAGNETAR_CLUSTER_NAME",
        "MAGNETAR_METADATA_URL",
        "MAGNETAR_CONFIGURATION_METADATA_STORE_URL",
    )
    entries = (tuple(urls[name] for name in names) for urls in stores)
    return {
        "MAGNETAR_CLUSTERS": " ".join(f"{name}={url}|{shared}" for name, url, shared in entries)
    }


def _of_cluster(
    options: InstanceOptions, member: Member, ports: Mapping[str, int], env: Mapping[str, str]
) -> list[Child]:
    """Return the bookies and brokers of a cluster, and its functions worker."""
    parts = [*_bookies(options, member, ports, env), *_brokers(options, member, ports, env)]
    if options.settings.instance.functions_worker_enabled:
        parts.append(_functions_worker(options, member, ports, env))
    return [replace(part, cluster=member.name or CLUSTER) for part in parts]


def _metadata(
    options: InstanceOptions, port: int, java_home: Path, classpath: str, env: Mapping[str, str]
) -> Child:
    """Return the metadata server. Its name is the same for both kinds."""
    data, ready = options.data_dir, Ready("zookeeper", port)
    if options.metadata == "embedded":
        argv = embedded_metadata(data / "metadata", options.host, port)
        if options.secure:
            ready = Ready("tcp", port)  # it listens once it has loaded its store
            env = {**env, **options.secure.of_metadata_server(port)}
        return Child("zookeeper", argv, {"zookeeper": port}, ready, env=env)
    argv = apache_zookeeper(data, java_home, classpath, data / "zookeeper" / "zoo.cfg")
    return Child("zookeeper", argv, {"zookeeper": port}, ready, env={**env, **JAVA_LOCALE})


def embedded_metadata(folder: Path, host: str, port: int) -> tuple[str, ...]:
    """Return the command line of the engine's own metadata server."""
    command = (*PYTHON, "engine", "metadata", "--data-dir", str(folder))
    return (*command, "--host", host, "--port", str(port))


def apache_zookeeper(
    data_dir: Path, java_home: Path, classpath: str, config: Path
) -> tuple[str, ...]:
    """Return the command line of Apache ZooKeeper."""
    return (
        *(str(java_home / "bin" / "java"), "-Xmx256m", "-Xms32m", "-XX:+UseSerialGC"),
        *("-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={data_dir}/log4j2.properties"),
        *("-cp", classpath, "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)),
    )


def _bookies(
    options: InstanceOptions, member: Member, ports: Mapping[str, int], shared: Mapping[str, str]
) -> list[Child]:
    out = []
    first = member.number * options.bookies
    for i in range(options.bookies):
        name = f"{member.prefix}bookie-{i + 1}"
        port, http = ports["BOOKIE"] + first + i, ports["BOOKIE_HTTP"] + first + i
        argv = (
            *(*PYTHON, "bookie", "--data-dir", str(member.folder / f"bookie-{i + 1}")),
            *("--port", str(port), "--status-port", str(http)),
            *("--metadata", shared["MAGNETAR_METADATA_URL"]),
        )
        # A bookie's disks are bound to its id, which by default holds the port, and to their path. Both may change
        # between two starts of an instance.
        own = {"MAGNETAR_BOOKIE_BOOKIE_ID": name, "MAGNETAR_BOOKIE_MOVABLE_DATA": "true"}
        if options.secure:
            own |= options.secure.of_bookie()
        ready = Ready("http", http, "/ready")
        env = {**shared, **MALLOC, **own}
        own_ports = {"bookie": port, "http": http}
        out.append(Child(name, argv, own_ports, ready, needs=("zookeeper",), env=env))
    return out


def _brokers(
    options: InstanceOptions, member: Member, ports: Mapping[str, int], shared: Mapping[str, str]
) -> list[Child]:
    # Three copies if there are three bookies, with a majority as ack quorum: writing continues without one of them.
    quorum = min(options.bookies, 3)
    out = []
    first = member.number * options.brokers
    for i in range(options.brokers):
        own_ports = {
            label: ports[name] + BROKER_STEP * (first + i)
            for name, (label, _) in BROKER_PORTS.items()
            if options.secure or name not in SECURE_PORTS
        }
        variables = {
            variable: str(own_ports[label])
            for label, variable in BROKER_PORTS.values()
            if label in own_ports
        }
        env = {
            **shared,
            **MALLOC,
            **variables,
            **(options.secure.of_broker() if options.secure else {}),
            "MAGNETAR_MANAGED_LEDGER_DEFAULT_ENSEMBLE_SIZE": str(quorum),
            "MAGNETAR_MANAGED_LEDGER_DEFAULT_WRITE_QUORUM": str(quorum),
            "MAGNETAR_MANAGED_LEDGER_DEFAULT_ACK_QUORUM": str(quorum // 2 + 1),
        }
        argv = (*PYTHON, "engine", "broker")
        ready = Ready("http", own_ports["http"], "/ready")
        name = f"{member.prefix}broker-{i + 1}"
        out.append(
            Child(name, argv, own_ports, ready, needs=("zookeeper",), env=env, stop_timeout_s=20)
        )
    return out


def _proxy(options: InstanceOptions, ports: Mapping[str, int], shared: Mapping[str, str]) -> Child:
    own_ports = {"pulsar": ports["PROXY"], "http": ports["PROXY_HTTP"]}
    env = {
        **shared,
        **MALLOC,
        "MAGNETAR_PROXY_BIND_ADDRESS": options.host,
        "MAGNETAR_PROXY_SERVICE_PORT": str(own_ports["pulsar"]),
        "MAGNETAR_PROXY_WEB_SERVICE_PORT": str(own_ports["http"]),
    }
    if options.secure:
        own_ports["pulsar+ssl"] = ports["PROXY_TLS"]
        env |= {
            **options.secure.of_proxy(),
            "MAGNETAR_PROXY_SERVICE_PORT_TLS": str(own_ports["pulsar+ssl"]),
        }
    argv = (*PYTHON, "engine", "proxy")
    ready = Ready("http", own_ports["http"], "/ready")
    return Child("proxy", argv, own_ports, ready, needs=("zookeeper",), env=env)


def _functions_worker(
    options: InstanceOptions, member: Member, ports: Mapping[str, int], shared: Mapping[str, str]
) -> Child:
    """Return the functions worker, which waits by itself for its brokers."""
    prefix = "MAGNETAR_FUNCTIONS_WORKER_"
    own_ports = {"http": ports["FUNCTIONS"] + member.number}
    env = {
        **shared,
        f"{prefix}WORKER_PORT": str(own_ports["http"]),
        f"{prefix}WORKER_ID": f"{member.prefix}functions-worker",
    }
    if member.number == 0:  # The gateway's paths without the name of a cluster are the first one's.
        scheme, web = ("https", "HTTPS") if options.secure else ("http", "HTTP")
        env[f"{prefix}FUNCTION_WEB_SERVICE_URL"] = f"{scheme}://{options.host}:{ports[web]}"
    if options.secure:
        own_ports["https"] = ports["FUNCTIONS_TLS"] + member.number
        env |= {
            **options.secure.of_functions_worker(),
            f"{prefix}WORKER_PORT_TLS": str(own_ports["https"]),
        }
    return Child(
        f"{member.prefix}functions-worker",
        (*PYTHON, "engine", "functions-worker"),
        own_ports,
        Ready("http", own_ports["http"], "/ready"),
        needs=("zookeeper",),
        env=env,
        serves=FUNCTIONS,
        stop_timeout_s=30,
    )


def _worker(
    options: InstanceOptions, redis_port: int, gateways: Sequence[str], env: Mapping[str, str]
) -> Child:
    """Return the worker, which needs the console's database, created by a gateway."""
    at_once = options.settings.instance.analyses_at_once
    argv = (*PYTHON, "gateway.worker", "--concurrency", str(at_once))
    password_file = None
    if options.secure:
        password_file = options.secure.redis_password
        env = {**env, **options.secure.of_gateway(), **options.secure.of_redis_clients()}
        if not options.spark_remote:
            env |= options.secure.of_spark_clients()
    return Child(
        "worker",
        argv,
        {},
        Ready("worker", redis_port, password_file=password_file),
        needs=("redis", *gateways),
        will_need=() if options.spark_remote else ("spark",),
        env=env,
        on_demand=options.workers_on_demand,
        serves=ANALYSES,
    )


def _gateways(
    options: InstanceOptions, ports: Mapping[str, int], shared: Mapping[str, str]
) -> list[Child]:
    """Return one gateway on the port HTTP, or several that share it and have a port of their own each. With ``secure``
    they also serve the port HTTPS, which several share, too."""
    several = options.gateways > 1
    env, listeners, own_ports = dict(shared), {}, {}
    if several:
        listeners[LISTENER] = ports["HTTP"]
    if options.secure:
        https = ports["HTTPS"]
        env |= {
            **options.secure.of_gateway(),
            **options.secure.of_redis_clients(),
            "MAGNETAR_HTTPS_PORT": str(https),
        }
        if several:
            listeners[HTTPS_LISTENER] = https
        else:
            own_ports["https"] = https
    options_of = {LISTENER: "--listener", HTTPS_LISTENER: "--https-listener"}
    out = []
    for i in range(options.gateways):
        own = ports["GATEWAY_HTTP"] + i if several else ports["HTTP"]
        argv = (
            *(*PYTHON, "gateway.serve", "--host", options.host, "--port", str(own)),
            *(part for word in listeners for part in (options_of[word], word)),
        )
        name = f"gateway-{i + 1}" if several else "gateway"
        ready = Ready("http", own, "/admin/v2/brokers/health")
        out.append(
            Child(name, argv, {"http": own, **own_ports}, ready, env=env, listeners=listeners)
        )
    return out


def _refuse_shared_ports(children: Sequence[Child]) -> None:
    labels = {LISTENER: "http", HTTPS_LISTENER: "https"}
    users: dict[int, str] = {
        port: f"gateways ({labels[word]})"
        for child in children
        for word, port in child.listeners.items()
    }
    for child in children:
        for label, port in child.ports.items():
            user = f"{child.name} ({label})"
            if port in users:
                raise PlanError(f"port {port} is that of {users[port]} and of {user}")
            users[port] = user


def _spark(options: InstanceOptions, port: int, shared: Mapping[str, str]) -> Child:
    """Return the Spark Connect server; it is started on demand, since it takes ten seconds and a gigabyte."""
    host, data = options.host, options.data_dir
    secrets = ("--properties-file", str(options.secure.spark_properties)) if options.secure else ()
    # The heavy work is done in Python, with which Java's second compiler and parallel collector would compete.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": host,
        "spark.driver.host": host,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": data / "spark" / "warehouse",
        # As a URL, since Spark splits the options at blanks.
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={(data / 'log4j2.properties').absolute().as_uri()} {quick}"
        ),
        "spark.python.daemon.module": "spark_jobs.daemon",
        "spark.connect.progress.reportInterval": "200ms",
        # The workers' session must never expire: Spark does not open a session with the same id again.
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (data / FAIR_FILE).absolute().as_uri(),
        # The results are small; Spark's default of two hundred tasks would cost more than the work itself.
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": f"{options.settings.instance.spark_memory_mb}m",
    }
    argv = (
        *(*PYTHON, "gateway.standalone.spark", "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *secrets),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        "spark-internal",
    )
    env = {
        **shared,
        **JAVA_LOCALE,
        "SPARK_LAUNCHER_OPTS": quick,
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(data / "spark" / "tmp"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    env.pop("SPARK_REMOTE")
    ready = Ready("tcp", port)
    return Child("spark", argv, {"connect": port}, ready, env=env, on_demand=True, serves=ANALYSES)


def control_socket(data_dir: Path) -> Path:
    """Return the path of a running instance's control socket; connect to it by ``control.reachable``."""
    return data_dir / "control.sock"
