"""The clusters of an instance: their names, what a folder has of them, and their records."""

from pathlib import Path

import pytest

from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.records import decode_json, encode_json
from gateway.standalone import clusters
from gateway.standalone.clusters import (
    ClustersError,
    addresses,
    keep_names,
    parse_names,
    stored_names,
    write_records,
)
from gateway.standalone.plan import Child, InstanceOptions, children
from gateway.standalone.secure import SecureFiles
from gateway.standalone.settings import PROGRAM


def test_names_have_commas_between() -> None:
    assert parse_names("us-east,eu-west, ap_south1") == ("us-east", "eu-west", "ap_south1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be names with commas between, each of at most 63"),
        ("us,,eu", "not ''"),
        ("us,e.u", "not 'e.u'"),
        ("us,../eu", "not '../eu'"),
        (f"us,{'e' * 64}", "at most 63 letters"),
        ("us,global", "no cluster of several can have the name global"),
        ("us,standalone", "no cluster of several can have the name standalone"),
        ("us,eu,us", "--clusters names us twice"),
        ("us", "must have from 2 to 16 names, not 1"),
        (",".join(f"c{number}" for number in range(17)), "must have from 2 to 16 names, not 17"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ClustersError, match=words.replace(".", r"\.")):
        parse_names(text)


def test_clusters_may_be_added_at_the_end_of_the_list(tmp_path: Path) -> None:
    keep_names(tmp_path, ("us", "eu"))
    keep_names(tmp_path, ("us", "eu"))
    keep_names(tmp_path, ("us", "eu", "ap"))
    assert stored_names(tmp_path) == ("us", "eu", "ap")


@pytest.mark.parametrize("names", [(), ("us",), ("eu", "us"), ("us", "ap"), ("ap", "us", "eu")])
def test_a_folder_keeps_its_clusters_and_their_order(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    keep_names(tmp_path, ("us", "eu"))
    with pytest.raises(
        ClustersError, match=r"has the clusters us,eu\. Start it with --clusters us,eu"
    ):
        keep_names(tmp_path, names)
    assert stored_names(tmp_path) == ("us", "eu")


@pytest.mark.parametrize("folder", ["bookie-1", "metadata"])
def test_the_folder_of_one_cluster_is_not_started_with_several(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    with pytest.raises(ClustersError, match=r"has the data of one cluster\. Start it without"):
        keep_names(tmp_path, ("us", "eu"))
    keep_names(tmp_path, ())
    assert stored_names(tmp_path) == ()


def planned(
    folder: Path, *, secure: bool = False, brokers: int = 1, **settings: str
) -> tuple[InstanceOptions, list[Child]]:
    options = InstanceOptions(
        folder,
        PROGRAM.load(settings, folder),
        clusters=("us", "eu"),
        brokers=brokers,
        secure=SecureFiles(folder) if secure else None,
    )
    return options, children(options, java_home=folder, classpath="", redis="redis-server")


def test_addresses_are_those_of_all_brokers_and_of_the_path_of_the_gateway(tmp_path: Path) -> None:
    assert addresses(*planned(tmp_path, brokers=2)) == {
        "us": {
            "serviceUrl": "http://127.0.0.1:8080",
            "brokerServiceUrl": "pulsar://127.0.0.1:6650,127.0.0.1:6660",
        },
        "eu": {
            "serviceUrl": "http://127.0.0.1:8080/clusters/eu",
            "brokerServiceUrl": "pulsar://127.0.0.1:6670,127.0.0.1:6680",
        },
    }


def test_addresses_of_a_secure_instance_are_also_those_by_tls(tmp_path: Path) -> None:
    eu = addresses(*planned(tmp_path, secure=True))["eu"]
    assert eu["serviceUrlTls"] == "https://localhost:8443/clusters/eu"
    assert eu["brokerServiceUrlTls"] == "pulsar+ssl://localhost:6661"


async def test_records_follow_the_ports_and_keep_what_else_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MemoryServer()
    store = server.session()

    async def connected(*_: object, **__: object) -> MemoryStore:
        return server.session()

    monkeypatch.setattr(clusters, "connect_stores", connected)

    async def record(path: str) -> dict[str, object]:
        return decode_json((await store.get(path))[0], path)

    await write_records(*planned(tmp_path))
    eu = await record("/admin/clusters/eu")
    assert eu["brokerServiceUrl"] == "pulsar://127.0.0.1:6660"
    assert eu["brokerClientTlsEnabled"] is False
    for tenant in ("public", "pulsar"):
        assert (await record(f"/admin/policies/{tenant}"))["allowedClusters"] == ["us", "eu"]
    default = await record("/admin/policies/public/default")
    assert default["replication_clusters"] == ["us", "eu"]
    await store.put(
        "/admin/policies/public/default", encode_json({**default, "replication_clusters": ["us"]})
    )

    eu["peerClusterNames"] = ["us"]
    await store.put("/admin/clusters/eu", encode_json(eu))
    await write_records(*planned(tmp_path, MAGNETAR_PORT_OFFSET="4000"))
    moved = await record("/admin/clusters/eu")
    assert moved == {
        **eu,
        "brokerServiceUrl": "pulsar://127.0.0.1:10660",
        "serviceUrl": "http://127.0.0.1:12080/clusters/eu",
    }
    default = await record("/admin/policies/public/default")
    assert default["replication_clusters"] == ["us"], "what an administrator changed stays"
