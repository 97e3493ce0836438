"""Commands that prepare a cluster's metadata: their arguments, what they write to which store, their repetition."""

import asyncio
import json
from typing import Any

import pytest

from engine.__main__ import main
from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.apart.routed import BOOKKEEPER, CONFIGURATION
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.layout import LAYOUT
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.programs.commands import cluster_metadata
from engine.schema.locator import SchemaVersion, locator
from tests.support.stores.apart import LOCAL, ApartStores

DEFAULTS = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
POLICIES = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": ["c3"],
    "allowed_clusters": [],
    "bundles": {
        "boundaries": [f"0x{i:x}0000000" for i in range(16)] + ["0xffffffff"],
        "numBundles": 16,
    },
    "backlog_quota_map": {},
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "encryption_required": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
    "properties": {},
    "migrated": False,
    "clusterThatCanDeleteNamespace": "c3",
}
"""Policies of public/default in a cluster that Apache Pulsar 4.0.8 initialized."""
WRITTEN: dict[str, Any] = {
    "/admin/clusters/c3": DEFAULTS
    | {"serviceUrl": "http://h:8080", "brokerServiceUrl": "pulsar://h:6650"},
    "/admin/clusters/global": DEFAULTS,
    "/admin/policies/public": {"allowedClusters": ["c3"], "adminRoles": []},
    "/admin/policies/pulsar": {"allowedClusters": ["c3"], "adminRoles": []},
    "/admin/policies/public/default": POLICIES,
    "/admin/policies/pulsar/system": POLICIES,
    "/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign": {
        "partitions": 16,
        "deleted": False,
    },
}
INITIALIZE = (
    *("initialize-cluster-metadata", "-c", "c3", "-uw", "http://h:8080", "-ub", "pulsar://h:6650"),
    *("-md", "zk:a:1", "-cms", "zk:c:1"),
)


class Stores:
    """Memory stores in place of those that the commands connect to, and in ``urls`` what they asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.apart = ApartStores()
        self.urls: list[StoreUrls] = []
        self.error: MagnetarError | None = None
        monkeypatch.setattr(cluster_metadata, "connect_stores", self._connect)
        monkeypatch.setattr(cluster_metadata.logs, "configure", lambda *_: None)

    async def _connect(self, urls: StoreUrls, **_: Any) -> MetadataStore:
        self.urls.append(urls)
        if self.error is not None:
            raise self.error
        return self.apart.session() if urls.configuration else self.configuration.session()

    @property
    def configuration(self) -> MemoryServer:
        return self.apart.servers[CONFIGURATION]

    def create(self, nodes: dict[str, bytes]) -> None:
        async def create() -> None:
            session = self.apart.session()
            for path, value in nodes.items():
                await session.create(path, value, make_parents=True)
            await session.close()

        asyncio.run(create())

    def values(self, name: str, tree: str) -> dict[str, Any]:
        """Return the nodes of a store below ``tree`` that have JSON values."""
        server = self.apart.servers[name]
        nodes: dict[str, Any] = {}

        def walk(path: str) -> None:
            if not server.tree.exists(path):
                return
            value, _ = server.tree.get(path)
            if value:
                nodes[path] = json.loads(value)
            for child in server.tree.children(path):
                walk(f"{path}/{child}")

        walk(tree)
        return nodes

    def value(self, name: str, path: str) -> bytes:
        return self.apart.servers[name].tree.get(path)[0]

    def exists(self, name: str, path: str) -> bool:
        return self.apart.servers[name].tree.exists(path) is not None


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Stores:
    return Stores(monkeypatch)


def test_the_nodes_of_apache_are_written_to_their_stores(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*INITIALIZE]) == 0
    assert capsys.readouterr().out == "Cluster metadata for 'c3' setup correctly\n"
    assert stores.urls == [StoreUrls("zk:a:1", "zk:c:1")]
    assert stores.values(CONFIGURATION, "/admin") == WRITTEN
    assert stores.values(LOCAL, "/bookies") == {"/bookies": {}}
    assert stores.values(LOCAL, "/admin") == {}
    # The memory stores put ledgers apart, whatever the URLs are.
    assert len(stores.value(BOOKKEEPER, paths.INSTANCE_ID)) == 36
    assert stores.value(BOOKKEEPER, paths.LAYOUT) == LAYOUT
    assert stores.exists(BOOKKEEPER, paths.READ_ONLY)


def test_a_repetition_changes_nothing(stores: Stores) -> None:
    assert main([*INITIALIZE]) == 0
    instance = stores.value(BOOKKEEPER, paths.INSTANCE_ID)
    assert main([*INITIALIZE, "-bn", "4", "--initial-num-transaction-coordinators", "8"]) == 0
    assert stores.values(CONFIGURATION, "/admin") == WRITTEN
    assert stores.value(BOOKKEEPER, paths.INSTANCE_ID) == instance
    versions = {path: stores.configuration.tree.get(path)[1].version for path in WRITTEN}
    assert set(versions.values()) == {0}


def test_a_second_cluster_is_added_to_tenants_and_namespaces(stores: Stores) -> None:
    main([*INITIALIZE])
    second = ["west" if text == "c3" else text for text in INITIALIZE]
    more = ["--initial-num-transaction-coordinators", "20"]
    assert main([*second, *more]) == 0
    values = stores.values(CONFIGURATION, "/admin")
    assert values["/admin/policies/public"]["allowedClusters"] == ["c3", "west"]
    assert values["/admin/policies/public/default"] == POLICIES | {
        "replication_clusters": ["c3", "west"]
    }
    assert values["/admin/clusters/west"]["serviceUrl"] == "http://h:8080"
    [coordinators] = [path for path in WRITTEN if path.startswith("/admin/partitioned-topics")]
    assert values[coordinators] == {"partitions": 20, "deleted": False}


def test_options_fill_the_clusters_record(stores: Stores) -> None:
    options = {
        "-tw": ("serviceUrlTls", "https://h:8443"),
        "-tb": ("brokerServiceUrlTls", "pulsar+ssl://h:6651"),
        "--auth-plugin": ("authenticationPlugin", "p"),
        "--auth-parameters": ("authenticationParameters", "k:v"),
        "-pp": ("proxyProtocol", "SNI"),
        "-pu": ("proxyServiceUrl", "pulsar://p:6650"),
    }
    given = [text for name, (_, value) in options.items() for text in (name, value)]
    assert main([*INITIALIZE, *given, "--tls-enable", "-bn", "2"]) == 0
    values = stores.values(CONFIGURATION, "/admin")
    expected = WRITTEN["/admin/clusters/c3"] | dict(options.values())
    assert values["/admin/clusters/c3"] == expected | {"brokerClientTlsEnabled": True}
    assert values["/admin/policies/public/default"]["bundles"]["numBundles"] == 2
    assert values["/admin/policies/pulsar/system"]["bundles"]["numBundles"] == 16


def test_bookkeepers_metadata_that_exists_is_left_alone(stores: Stores) -> None:
    uri = "zk+hierarchical://b:1/ledgers"
    for name in ("--existing-bk-metadata-service-uri", "--bookkeeper-metadata-service-uri"):
        assert main([*INITIALIZE, name, uri]) == 0
        assert stores.urls[-1] == StoreUrls("zk:a:1", "zk:c:1", "zk:b:1")
    assert not stores.exists(BOOKKEEPER, paths.LEDGERS)


def test_old_names_of_the_stores_are_accepted(stores: Stores) -> None:
    start = INITIALIZE[:7]
    for name in ("-cs", "-gzk"):
        assert main([*start, "-zk", "a:1,b:1/eu", name, "c:1"]) == 0
        assert stores.urls[-1] == StoreUrls("zk:a:1,b:1/eu", "zk:c:1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["initialize-cluster-metadata"], "required: -c/--cluster, -uw/--web-service-url"),
        ([*INITIALIZE[:9]], "required: --configuration-metadata-store"),
        ([*INITIALIZE[:7], "-cms", "zk:c:1"], "required: --metadata-store"),
        ([*INITIALIZE, "-cs", "c:1"], "argument --configuration-metadata-store: not allowed with"),
        ([*INITIALIZE[:8], "nonsense:x", "-cms", "zk:c:1"], "argument --metadata-store: must be"),
        ([*INITIALIZE, "-bn", "0"], "argument -bn/--default-namespace-bundle-number: must be"),
        ([*INITIALIZE, "-te", "maybe"], "argument -te/--tls-enable: must be true or false"),
        ([*INITIALIZE, "-tb", "h:1"], "argument -tb/--broker-service-url-tls: Illegal broker"),
        ([*INITIALIZE, "-pp", "DNS"], "argument -pp/--proxy-protocol: invalid choice"),
        ([*INITIALIZE, "-c", "a/b"], "argument -c/--cluster: "),
        (
            [*INITIALIZE, "--initial-num-transaction-coordinators", "0"],
            "argument --initial-num-transaction-coordinators: must be a whole number from 1",
        ),
        (
            [*INITIALIZE, "--existing-bk-metadata-service-uri", "zk:b:1"],
            "argument --existing-bk-metadata-service-uri: must be zk",
        ),
        ([*INITIALIZE, "-mscp", "f"], "argument --metadata-store-config-path: files of access"),
        ([*INITIALIZE, "--clus", "x"], "unrecognized arguments: --clus x"),
        (["initialize-namespace", "-c", "c3", "-cs", "c:1"], "required: tenant/namespace"),
        (["initialize-namespace", "-c", "c3", "-cs", "c:1", "a"], "argument tenant/namespace: "),
        (["initialize-namespace", "-c", "c3", "a/b"], "required: -cs/--configuration-store"),
        (["delete-cluster-metadata", "-c", "c3"], "required: --metadata-store"),
    ],
)
def test_an_invalid_argument_is_named_and_nothing_is_written(
    stores: Stores, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert stores.urls == []


def test_a_store_that_does_not_answer_is_a_failure(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    stores.error = StoreUnavailableError("no ZooKeeper at a:1 within 15 s")
    assert main([*INITIALIZE]) == 1
    assert "initialize-cluster-metadata: no ZooKeeper at a:1" in capsys.readouterr().err


def test_namespaces_and_their_tenants_are_created_in_the_configuration_store(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["initialize-namespace", "-cs", "c:1", "-c"]
    assert main([*start, "c3", "t/a", "t/b"]) == 0
    assert capsys.readouterr().out == "Initial namespace setup success\n"
    assert main([*start, "west", "t/a"]) == 0
    values = stores.values(CONFIGURATION, "/admin")
    assert values["/admin/policies/t"]["allowedClusters"] == ["c3", "west"]
    assert values["/admin/policies/t/b"] == POLICIES
    assert values["/admin/policies/t/a"]["replication_clusters"] == ["c3", "west"]


def test_coordinators_are_created_with_their_namespace(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["initialize-transaction-coordinator-metadata", "-c", "c3", "-cs", "c:1"]
    assert main([*command]) == 0
    assert capsys.readouterr().out == "Transaction coordinator metadata setup success\n"
    kept = ("/admin/policies/pulsar", "/admin/partitioned-topics")
    expected = {path: value for path, value in WRITTEN.items() if path.startswith(kept)}
    assert stores.values(CONFIGURATION, "/admin") == expected


DELETE = ("delete-cluster-metadata", "-md", "zk:a:1", "-cs", "c:1", "-cluster", "c3")


def test_a_deleted_cluster_is_gone_from_its_stores_and_others_stay(stores: Stores) -> None:
    main([*INITIALIZE])
    main(["west" if text == "c3" else text for text in INITIALIZE])
    trees = ("/loadbalance/brokers", "/counters/x", "/namespace/public", "/schemas/public")
    stores.create(dict.fromkeys(trees, b""))
    assert main([*DELETE]) == 0
    for path in ("/bookies", "/counters", "/loadbalance", "/namespace", "/schemas"):
        assert not stores.exists(LOCAL, path)
    values = stores.values(CONFIGURATION, "/admin")
    assert "/admin/clusters/c3" not in values
    assert values["/admin/policies/public"]["allowedClusters"] == ["west"]
    assert values["/admin/policies/public/default"]["replication_clusters"] == ["west"]
    assert stores.exists(BOOKKEEPER, paths.LEDGERS)
    assert main([*DELETE]) == 0


def test_ledgers_of_topics_cursors_and_schemas_are_deleted_where_bookkeeper_is_named(
    stores: Stores,
) -> None:
    main([*INITIALIZE])
    topic = paths.managed_ledger("public/default/persistent/a%2Fb")
    nodes = {
        topic: b"\x0a\x04\x08\x20\x20\x00",  # of ledger 32
        f"{topic}/sub": b"\x08\x21\x10\x20\x18\x00",  # a cursor whose state is in ledger 33
        paths.schema("public/default/a"): locator([SchemaVersion(0, 34, 0, b"h")]),
        **{paths.ledger(number): b"x" for number in (32, 33, 34, 35)},
    }
    stores.create(nodes)
    assert main([*DELETE, "--bookkeeper-metadata-service-uri", "zk://b:1/ledgers"]) == 0
    assert stores.urls[-1].bookkeeper == "zk:b:1"
    assert [stores.exists(BOOKKEEPER, paths.ledger(number)) for number in (32, 33, 34, 35)] == [
        *(False, False, False, True)
    ]
    assert not stores.exists(LOCAL, paths.MANAGED_LEDGERS)


def test_a_cluster_with_brokers_is_not_deleted(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*INITIALIZE])
    stores.create({paths.broker("b:1"): b"{}"})
    assert main([*DELETE]) == 1
    assert "brokers are running: stop b:1 first" in capsys.readouterr().err
    assert stores.exists(LOCAL, "/bookies")
    assert "/admin/clusters/c3" in stores.values(CONFIGURATION, "/admin")
