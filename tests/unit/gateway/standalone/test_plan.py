"""The plan of an instance: ports, counts, order."""

from pathlib import Path

import pytest

from engine.base.settings import SettingsError
from engine.metadata.settings import MetadataSettings
from gateway.standalone.plan import LISTENER, ROOT, Child, InstanceOptions, PlanError, children
from gateway.standalone.settings import PROGRAM

HERE = Path("/nowhere")


def plan(
    metadata: str = "embedded", *, proxy: bool = False, clusters: str = "", **settings: str
) -> dict[str, Child]:
    counts = {key: int(settings.pop(key)) for key in ("bookies", "brokers") if key in settings}
    options = InstanceOptions(
        data_dir=HERE,
        settings=PROGRAM.load(settings, HERE),
        spark_remote=settings.get("SPARK_REMOTE", ""),
        metadata=metadata,
        proxy=proxy,
        clusters=tuple(clusters.split()),
        **counts,
    )
    made = children(options, java_home=HERE, classpath="", redis="redis-server")
    return {child.name: child for child in made}


def test_children_have_the_names_of_the_interface_contract() -> None:
    assert list(plan(bookies="2")) == [
        *("zookeeper", "redis", "bookie-1", "bookie-2", "broker-1", "functions-worker"),
        *("gateway", "worker", "spark"),
    ]
    off = plan(MAGNETAR_FUNCTIONS_WORKER_ENABLED="false")
    assert "functions-worker" not in off


def test_no_two_ports_are_equal_in_the_largest_instance() -> None:
    made = plan(bookies="16", brokers="16", MAGNETAR_GATEWAYS="16", proxy=True)
    ports = [port for child in made.values() for port in child.ports.values()]
    assert len(ports) == len(set(ports))


def test_parts_of_several_clusters_have_their_names_and_what_they_share_has_none() -> None:
    made = plan(clusters="us eu")
    assert {child.name: child.cluster for child in made.values()} == {
        "zookeeper": None,
        "redis": None,
        "us.bookie-1": "us",
        "us.broker-1": "us",
        "eu.bookie-1": "eu",
        "eu.broker-1": "eu",
        "us.functions-worker": "us",
        "eu.functions-worker": "eu",
        "gateway": None,
        "worker": None,
        "spark": None,
    }
    assert {child.cluster for child in plan().values()} == {"standalone"}


def test_bookies_and_brokers_of_a_cluster_have_the_ports_after_those_of_the_one_before() -> None:
    made = plan(clusters="us eu", bookies="2", brokers="2")
    brokers = [made[f"{name}.broker-{i}"].ports["pulsar"] for name in ("us", "eu") for i in (1, 2)]
    assert brokers == [6650, 6660, 6670, 6680]
    bookies = [made[f"{name}.bookie-{i}"].ports["bookie"] for name in ("us", "eu") for i in (1, 2)]
    assert bookies == [3181, 3182, 3183, 3184]
    assert made["eu.bookie-1"].env["MAGNETAR_BOOKIE_BOOKIE_ID"] == "eu.bookie-1"
    assert str(HERE / "clusters" / "eu" / "bookie-1") in made["eu.bookie-1"].argv


def test_each_cluster_has_a_metadata_store_and_all_share_one_of_the_configuration() -> None:
    made = plan(clusters="us eu")
    names = (
        "MAGNETAR_CLUSTER_NAME",
        "MAGNETAR_METADATA_URL",
        "MAGNETAR_CONFIGURATION_METADATA_STORE_URL",
    )
    server, shared = "zk:127.0.0.1:2181", "zk:127.0.0.1:2181/configuration"
    us, eu = (("us", f"{server}/clusters/us", shared), ("eu", f"{server}/clusters/eu", shared))
    for part, expected in (("us.broker-1", us), ("eu.broker-1", eu), ("gateway", us)):
        assert tuple(made[part].env[name] for name in names) == expected
    further = made["gateway"].env["MAGNETAR_CLUSTERS"]
    assert further == made["worker"].env["MAGNETAR_CLUSTERS"] == f"eu={eu[1]}|{shared}"
    assert made["eu.bookie-1"].argv[-1] == eu[1]
    assert "MAGNETAR_CLUSTERS" not in plan()["gateway"].env


def test_a_proxy_runs_where_it_is_asked_for() -> None:
    child = plan(proxy=True)["proxy"]
    assert child.ports == {"pulsar": 6640, "http": 8079}
    assert child.env["MAGNETAR_PROXY_BIND_ADDRESS"] == "127.0.0.1"
    assert child.needs == ("zookeeper",)
    assert "proxy" not in plan()


def test_several_gateways_share_a_port_and_have_one_each() -> None:
    made = plan(MAGNETAR_GATEWAYS="3")
    gateways = [made[f"gateway-{number}"] for number in (1, 2, 3)]
    assert [dict(child.listeners) for child in gateways] == 3 * [{LISTENER: 8080}]
    assert [child.ports["http"] for child in gateways] == [8401, 8402, 8403]
    assert [child.ready.port for child in gateways] == [8401, 8402, 8403]
    assert made["worker"].needs == ("redis", "gateway-1", "gateway-2", "gateway-3")
    assert not plan()["gateway"].listeners


def test_one_gateway_starts_redis_worker_and_spark_on_demand() -> None:
    children = plan()
    on_demand = [child for child in children.values() if child.on_demand]
    assert [child.name for child in on_demand] == ["redis", "worker", "spark"]
    assert all(child.serves for child in on_demand)
    assert children["worker"].will_need == ("spark",)
    assert children["gateway"].env["MAGNETAR_WORKERS_ON_DEMAND"] == "true"


def test_several_gateways_start_with_redis_and_a_worker() -> None:
    children = plan(MAGNETAR_GATEWAYS="2")
    assert [child.name for child in children.values() if child.on_demand] == ["spark"]
    assert not children["redis"].serves
    assert children["worker"].env["MAGNETAR_WORKERS_ON_DEMAND"] == "false"


def test_both_kinds_of_metadata_servers_have_one_name_and_port() -> None:
    embedded, apache = plan()["zookeeper"], plan("zookeeper")["zookeeper"]
    assert embedded.ports == apache.ports == {"zookeeper": 2181}
    assert embedded.ready == apache.ready
    assert embedded.argv[1:5] == ("-P", "-m", "engine", "metadata")
    assert "java" not in " ".join(embedded.argv)
    assert "org.apache.zookeeper.server.ZooKeeperServerMain" in apache.argv


@pytest.mark.parametrize(("given", "after"), [("", []), ("/other", ["/other"])])
def test_children_import_our_packages_before_others_of_the_same_name(
    given: str, after: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", given)
    made = plan()
    for name in ("zookeeper", "bookie-1", "broker-1", "gateway", "worker", "spark"):
        assert made[name].env["PYTHONPATH"].split(":") == [str(ROOT), *after]
        # The working directory would come before PYTHONPATH.
        assert made[name].argv[1:3] == ("-P", "-m")


def test_stores_that_are_apart_are_no_part_of_an_instance() -> None:
    for child in plan().values():
        stores = MetadataSettings(
            child.env["MAGNETAR_METADATA_URL"],
            child.env["MAGNETAR_CONFIGURATION_METADATA_STORE_URL"],
            child.env["MAGNETAR_BOOKKEEPER_METADATA_SERVICE_URI"],
        ).stores
        assert stores.others() == {}


def test_offset_moves_every_default_port_and_a_named_port_wins() -> None:
    plain = plan()
    moved = plan(MAGNETAR_PORT_OFFSET="4000", MAGNETAR_HTTP_PORT="8888")
    assert moved["broker-1"].ports["pulsar"] == plain["broker-1"].ports["pulsar"] + 4000
    assert moved["gateway"].ports["http"] == 8888


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"MAGNETAR_BROKER_PORT": "none"}, "broker_port must be a whole number from 1"),
        ({"MAGNETAR_HTTP_PORT": "65536"}, "http_port must be a whole number from 1"),
        (
            {"MAGNETAR_PORT_OFFSET": "60000"},
            "MAGNETAR_PORT_OFFSET 60000 puts the BROKER port above",
        ),
        ({"MAGNETAR_HTTP_PORT": "6650"}, "port 6650 is that of broker-1 .pulsar. and of gateway"),
        ({"MAGNETAR_GATEWAYS": "17"}, "gateways must be a whole number from 1 to 16"),
        (
            {"MAGNETAR_GATEWAYS": "2", "MAGNETAR_BROKER_PORT": "8080"},
            "port 8080 is that of gateways .http. and of broker-1",
        ),
        ({"bookies": "0"}, "--bookies must be from 1 to 16"),
        ({"brokers": "17"}, "--brokers must be from 1 to 16"),
        ({"clusters": "a b c", "brokers": "6"}, "--brokers must be at most 5 for 3 clusters"),
        ({"clusters": "a b c", "bookies": "6"}, "--bookies must be at most 5 for 3 clusters"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(settings: dict[str, str], names: str) -> None:
    with pytest.raises((PlanError, SettingsError), match=names):
        plan(**settings)


def test_quorums_follow_the_number_of_bookies() -> None:
    env = plan(bookies="3")["broker-1"].env
    quorum = [
        env[f"MAGNETAR_MANAGED_LEDGER_DEFAULT_{name}"]
        for name in ("ENSEMBLE_SIZE", "WRITE_QUORUM", "ACK_QUORUM")
    ]
    assert quorum == ["3", "3", "2"]


def test_a_blank_in_the_path_of_the_data_does_not_split_the_options_of_java() -> None:
    options = InstanceOptions(Path("/srv/my data"), PROGRAM.load({}, Path()))
    built = children(options, java_home=Path(), classpath="", redis="redis-server")
    [spark] = [child for child in built if child.name == "spark"]
    [java] = [word for word in spark.argv if word.startswith("spark.driver.extraJavaOptions=")]
    assert all(option.startswith("-") for option in java.partition("=")[2].split(" "))


def test_spark_is_not_ours_when_a_cluster_is_named() -> None:
    assert "spark" not in plan(SPARK_REMOTE="sc://spark.example:15002")
