"""Commands that prepare or remove a cluster's metadata, with the arguments of Apache Pulsar's commands."""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from engine.base import log as logs
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.log import LogSettings
from engine.base.names import NamespaceName
from engine.base.settings import Program, SettingsError
from engine.ledger.client import LedgerClient
from engine.ledger.settings import LedgerSettings
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.settings import ManagedSettings
from engine.metadata import paths
from engine.metadata.apart.stores import StoreUrls, connect_stores
from engine.metadata.settings import MetadataSettings
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.programs.commands.command_parser import CommandParser
from engine.schema.locator import parse_locator
from engine.tenancy import initialization
from engine.tenancy.bundles import even_bundles
from engine.tenancy.clusters import cluster_data, cluster_name
from engine.tenancy.nodes import children, delete_tree

METADATA, CONFIGURATION = "--metadata-store", "--configuration-metadata-store"
OLD_CONFIGURATION = "--configuration-store"
CONFIG_PATHS = ("--metadata-store-config-path", "--configuration-metadata-store-config-path")
BOOKKEEPER = ("--existing-bk-metadata-service-uri", "--bookkeeper-metadata-service-uri")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """Settings of a command: means of access to the stores and to bookies, and the log."""

    metadata: MetadataSettings
    ledger: LedgerSettings
    log: LogSettings


Work = Callable[[MetadataStore, CommandSettings], Awaitable[None]]

PROGRAM = Program("command", CommandSettings)


class BrokersRunningError(MagnetarError):
    """Brokers of the cluster are registered."""


def initialize_cluster_metadata(argv: Sequence[str]) -> int:
    """Create the records of a new cluster and return the exit status."""
    parser = CommandParser("initialize-cluster-metadata", "Create the metadata of a new cluster.")
    parser.text("-c", "--cluster", help="name of the cluster", required=True)
    parser.number(
        *("-bn", "--default-namespace-bundle-number"),
        help="bundles of public/default",
        default=initialization.DEFAULT_BUNDLES,
    )
    parser.text("-uw", "--web-service-url", help="http://host:port", required=True)
    parser.text("-tw", "--web-service-url-tls", help="https://host:port")
    parser.text("-ub", "--broker-service-url", help="pulsar://host:port")
    parser.text("-tb", "--broker-service-url-tls", help="pulsar+ssl://host:port")
    parser.flag("-te", "--tls-enable", help="clients of other clusters connect with TLS")
    parser.text("--auth-plugin", help="authentication plugin of clients of other clusters")
    parser.text("--auth-parameters", help="parameters of that plugin")
    parser.text("-md", METADATA, help="metadata store, such as zk:host:port")
    parser.text("-zk", "--zookeeper")
    parser.text("-cms", CONFIGURATION, help="configuration metadata store")
    parser.text("-cs", OLD_CONFIGURATION)
    parser.text("-gzk", "--global-zookeeper")
    parser.config_paths(("-mscp", CONFIG_PATHS[0]), ("-cmscp", CONFIG_PATHS[1]))
    parser.session_timeout()
    parser.number(
        "--initial-num-stream-storage-containers",
        help="no effect: BookKeeper's stream storage is not built",
        default=16,
        low=0,
    )
    parser.number(
        "--initial-num-transaction-coordinators", help="transaction coordinators", default=16
    )
    parser.text(BOOKKEEPER[0], help="service URI of BookKeeper's metadata that exists already")
    parser.text(BOOKKEEPER[1])
    parser.add_argument("-pp", "--proxy-protocol", choices=("SNI",), help="routing of a proxy")
    parser.text("-pu", "--proxy-url", help="URL of the proxy")
    given = parser.parse_args(argv)
    parser.refuse_config_paths(given, *CONFIG_PATHS)
    metadata = parser.one_of(given, (METADATA, "--zookeeper"), required=True)
    names = (CONFIGURATION, OLD_CONFIGURATION, "--global-zookeeper")
    configuration = parser.one_of(given, names, required=True)
    existing = parser.one_of(given, BOOKKEEPER, required=False)
    urls = parser.stores(
        (METADATA, metadata), (CONFIGURATION, configuration), (BOOKKEEPER[0], existing)
    )
    record = _cluster_record(parser, given)
    bundles = given.default_namespace_bundle_number
    _checked(parser, "-bn/--default-namespace-bundle-number", partial(even_bundles, bundles))

    async def work(store: MetadataStore, settings: CommandSettings) -> None:
        await initialization.initialize_cluster(
            store,
            given.cluster,
            record,
            RandomEntropy(),
            bundles=bundles,
            coordinators=given.initial_num_transaction_coordinators,
            with_ledgers=not existing,
        )

    done = f"Cluster metadata for '{given.cluster}' setup correctly"
    return _run(parser, urls, given.zookeeper_session_timeout_ms, work, done)


def initialize_namespace(argv: Sequence[str]) -> int:
    """Create tenants and namespaces, or add the cluster to them, and return the exit status."""
    parser = _configuration_parser("initialize-namespace", "Create namespaces and their tenants.")
    parser.add_argument("namespaces", nargs="+", metavar="tenant/namespace")
    given = parser.parse_args(argv)
    urls = _configuration_urls(parser, given)
    names = [
        _checked(parser, "tenant/namespace", partial(NamespaceName.parse, text))
        for text in given.namespaces
    ]

    async def work(store: MetadataStore, settings: CommandSettings) -> None:
        for name in names:
            await initialization.ensure_tenant(store, name.tenant, given.cluster)
            await initialization.ensure_namespace(store, name, given.cluster)

    timeout_ms = given.zookeeper_session_timeout_ms
    return _run(parser, urls, timeout_ms, work, "Initial namespace setup success")


def initialize_transaction_coordinator_metadata(argv: Sequence[str]) -> int:
    """Create the records of transaction coordinators and return the exit status."""
    parser = _configuration_parser(
        "initialize-transaction-coordinator-metadata",
        "Create pulsar/system and the partitions of the transaction coordinators.",
    )
    parser.number(
        "--initial-num-transaction-coordinators", help="transaction coordinators", default=16
    )
    given = parser.parse_args(argv)
    urls = _configuration_urls(parser, given)
    system = initialization.COORDINATORS.namespace

    async def work(store: MetadataStore, settings: CommandSettings) -> None:
        await initialization.ensure_tenant(store, system.tenant, given.cluster)
        await initialization.ensure_namespace(store, system, given.cluster)
        await initialization.ensure_coordinators(store, given.initial_num_transaction_coordinators)

    timeout_ms = given.zookeeper_session_timeout_ms
    return _run(parser, urls, timeout_ms, work, "Transaction coordinator metadata setup success")


def delete_cluster_metadata(argv: Sequence[str]) -> int:
    """Remove a cluster whose brokers are stopped and return the exit status."""
    parser = CommandParser("delete-cluster-metadata", "Remove the metadata of a stopped cluster.")
    parser.text("-zk", "--zookeeper")
    parser.text("-md", METADATA, help="metadata store, such as zk:host:port")
    parser.config_paths(("-mscp", CONFIG_PATHS[0]), ("-cmscp", CONFIG_PATHS[1]))
    parser.session_timeout()
    parser.text("-c", "-cluster", "--cluster", help="name of the cluster")
    parser.text("-cs", OLD_CONFIGURATION, help="configuration store, to remove the cluster there")
    parser.text(BOOKKEEPER[1], help="service URI of BookKeeper's metadata, to delete ledgers there")
    given = parser.parse_args(argv)
    parser.refuse_config_paths(given, *CONFIG_PATHS)
    metadata = parser.one_of(given, (METADATA, "--zookeeper"), required=True)
    service_uri = given.bookkeeper_metadata_service_uri
    urls = parser.stores(
        (METADATA, metadata),
        (OLD_CONFIGURATION, given.configuration_store),
        (BOOKKEEPER[1], service_uri),
    )
    if given.cluster:
        _checked(parser, "-c/-cluster/--cluster", partial(cluster_name, given.cluster))

    async def work(store: MetadataStore, settings: CommandSettings) -> None:
        brokers = await children(store, paths.LOADBALANCE_BROKERS)
        if brokers:
            raise BrokersRunningError(f"brokers are running: stop {', '.join(brokers)} first")
        if service_uri:
            await _delete_ledgers(store, settings.ledger)
        for tree in initialization.LOCAL_TREES:
            await delete_tree(store, tree)
        if given.configuration_store and given.cluster:
            await initialization.remove_cluster(store, given.cluster)

    done = f"Cluster metadata for '{given.cluster}' teardown."
    return _run(parser, urls, given.zookeeper_session_timeout_ms, work, done)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "initialize-cluster-metadata": initialize_cluster_metadata,
    "initialize-namespace": initialize_namespace,
    "initialize-transaction-coordinator-metadata": initialize_transaction_coordinator_metadata,
    "delete-cluster-metadata": delete_cluster_metadata,
}


def _configuration_parser(name: str, text: str) -> CommandParser:
    parser = CommandParser(name, text)
    parser.text("-c", "--cluster", help="name of the cluster", required=True)
    parser.text("-cs", OLD_CONFIGURATION, help="configuration store", required=True)
    parser.config_paths(("-cmscp", CONFIG_PATHS[1]))
    parser.session_timeout()
    return parser


def _configuration_urls(parser: CommandParser, given: argparse.Namespace) -> StoreUrls:
    """Return the URL of the configuration store alone, and check the cluster's name."""
    parser.refuse_config_paths(given, CONFIG_PATHS[1])
    _checked(parser, "-c/--cluster", partial(cluster_name, given.cluster))
    return parser.stores((OLD_CONFIGURATION, given.configuration_store), ("", ""), ("", ""))


def _cluster_record(parser: CommandParser, given: argparse.Namespace) -> dict[str, object]:
    """Return the cluster's data by Pulsar's names. End the process for an invalid argument."""
    _checked(parser, "-c/--cluster", partial(cluster_name, given.cluster))
    record: dict[str, object] = {}
    for name, key, value in (
        ("-uw/--web-service-url", "serviceUrl", given.web_service_url),
        ("-tw/--web-service-url-tls", "serviceUrlTls", given.web_service_url_tls),
        ("-ub/--broker-service-url", "brokerServiceUrl", given.broker_service_url),
        ("-tb/--broker-service-url-tls", "brokerServiceUrlTls", given.broker_service_url_tls),
        ("-te/--tls-enable", "brokerClientTlsEnabled", given.tls_enable),
        ("--auth-plugin", "authenticationPlugin", given.auth_plugin),
        ("--auth-parameters", "authenticationParameters", given.auth_parameters),
        ("-pp/--proxy-protocol", "proxyProtocol", given.proxy_protocol),
        ("-pu/--proxy-url", "proxyServiceUrl", given.proxy_url),
    ):
        if value not in (None, ""):
            _checked(parser, name, partial(cluster_data, {key: value}))
            record[key] = value
    return record


def _checked(parser: CommandParser, name: str, check: Callable[[], T]) -> T:
    """Return ``check()``; end the process with the argument's name if it raises a MagnetarError."""
    try:
        return check()
    except MagnetarError as error:
        parser.error(f"argument {name}: {error}")


async def _delete_ledgers(store: MetadataStore, settings: LedgerSettings) -> None:
    """Delete the ledgers of all topics, cursors and schemas."""
    clock, entropy = SystemClock(), RandomEntropy()
    ledgers = LedgerClient(
        store=store, network=LoopNetwork(), clock=clock, entropy=entropy, settings=settings
    )
    factory = ManagedLedgerFactory(
        store=store, ledgers=ledgers, clock=clock, entropy=entropy, settings=ManagedSettings()
    )
    try:
        async for path, _ in _records(store, paths.MANAGED_LEDGERS):
            await factory.delete(path.removeprefix(f"{paths.MANAGED_LEDGERS}/"))
        async for _, value in _records(store, paths.SCHEMAS):
            for version in parse_locator(value)[1]:
                await ledgers.delete(version.ledger_id)
    finally:
        await factory.close()
        await ledgers.close()


async def _records(store: MetadataStore, tree: str) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the topmost nodes of a tree that have values, with these."""
    for child in await children(store, tree):
        path = f"{tree}/{child}"
        value, _ = await store.get(path)
        if value:
            yield path, value
            continue
        async for record in _records(store, path):
            yield record


def _run(parser: CommandParser, urls: StoreUrls, timeout_ms: int, work: Work, done: str) -> int:
    """Run ``work`` on the stores, print ``done`` and return 0; 1 after a failure, 78 (EX_CONFIG) for invalid settings.

    A failure is printed in one line; the command may be repeated.
    """
    logs.configure()
    try:
        settings = PROGRAM.load(
            os.environ,
            Path.cwd(),
            {
                "metadata_url": urls.metadata,
                "configuration_metadata_store_url": urls.configuration,
                "bookkeeper_metadata_service_uri": urls.service_uri if urls.bookkeeper else "",
            },
        )
        logs.configure(settings.log)
        asyncio.run(_work(settings, timeout_ms / 1000, work))
    except SettingsError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return os.EX_CONFIG
    except MagnetarError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    print(done)
    return 0


async def _work(settings: CommandSettings, timeout_s: float, work: Work) -> None:
    metadata = settings.metadata
    store = await connect_stores(
        metadata.stores, access=metadata.access, session_timeout_s=timeout_s
    )
    try:
        await work(store, settings)
    finally:
        await store.close()
