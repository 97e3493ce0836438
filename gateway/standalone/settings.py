"""Settings of an instance's supervisor, which passes settings to its children by ``MAGNETAR_*`` variables."""

from dataclasses import dataclass, field
from pathlib import Path

from engine.base.log import LogSettings
from engine.base.settings import PortOffset, Program, count, data_folder, flag, maybe_port
from gateway.standalone.ports import DEFAULTS

GATEWAYS_MAX = 16


def _port(name: str, help: str) -> int | None:
    return maybe_port(help, shown=f"{DEFAULTS[name]} + port_offset")


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """The data folder, and ports that differ from the default; of several bookies or brokers those of the first."""

    data_dir: Path = data_folder("everything an instance keeps; deleting it gives a new one")
    zookeeper_port: int | None = _port("ZOOKEEPER", "ZooKeeper")
    bookie_port: int | None = _port("BOOKIE", "BookKeeper's protocol; the next bookies' follow")
    broker_port: int | None = _port("BROKER", "Pulsar's protocol; the next brokers' in steps of 10")
    broker_tls_port: int | None = _port(
        "BROKER_TLS", "Pulsar's protocol by TLS with --secure; the next brokers' in steps of 10"
    )
    proxy_port: int | None = _port("PROXY", "Pulsar's protocol through the proxy, with --proxy")
    proxy_tls_port: int | None = _port("PROXY_TLS", "the same by TLS with --secure")
    proxy_http_port: int | None = _port("PROXY_HTTP", "the proxy's metrics and statistics")
    http_port: int | None = _port("HTTP", "console, REST, WebSocket endpoints")
    https_port: int | None = _port("HTTPS", "the same by TLS with --secure")
    broker_http_port: int | None = _port("BROKER_HTTP", "brokers' metrics; in steps of 10")
    broker_http_tls_port: int | None = _port(
        "BROKER_HTTP_TLS", "calls of brokers by TLS with --secure; in steps of 10"
    )
    bookie_http_port: int | None = _port("BOOKIE_HTTP", "bookies' metrics; the next ones follow")
    spark_port: int | None = _port("SPARK", "Spark Connect")
    redis_port: int | None = _port("REDIS", "Redis")
    gateway_http_port: int | None = _port(
        "GATEWAY_HTTP", "each of several gateways' own; the next ones follow"
    )
    functions_port: int | None = _port(
        "FUNCTIONS", "the functions worker's metrics and calls; the next clusters' follow"
    )
    functions_tls_port: int | None = _port("FUNCTIONS_TLS", "the same by TLS with --secure")
    functions_worker_enabled: bool = flag(
        True, "whether the instance runs functions, sources and sinks (functionsWorkerEnabled)"
    )
    analyses_at_once: int = count(2, "analyses that a worker runs at the same time", low=1, high=64)
    spark_memory_mb: int = count(
        1024, "memory of Spark's Java, beside that of its Python", low=512, high=1_048_576
    )
    gateways: int = count(1, "gateways behind http_port", low=1, high=GATEWAYS_MAX)

    def ports(self) -> dict[str, int]:
        """Return the ports that are set, by their names in ``ports.DEFAULTS``."""
        values = {name: getattr(self, f"{name.lower()}_port") for name in DEFAULTS}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class StandaloneSettings:
    """All settings of the supervisor."""

    instance: InstanceSettings = field(default_factory=InstanceSettings)
    offset: PortOffset = field(default_factory=PortOffset)
    log: LogSettings = field(default_factory=LogSettings)


PROGRAM = Program("standalone", StandaloneSettings)
