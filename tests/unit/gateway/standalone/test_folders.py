"""Folders of an instance: room for them, and paths that Java must read as they are."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.standalone import cli
from gateway.standalone.cli import _move_misplaced_data, _room_problem
from gateway.standalone.plan import InstanceOptions, misread_by_java, zookeeper_config
from gateway.standalone.programs import ProgramMissingError
from gateway.standalone.secure import SecureFiles
from gateway.standalone.settings import PROGRAM


def test_room_for_new_bookies_is_looked_for_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 20 << 20))  # type: ignore[attr-defined]
    options = InstanceOptions(tmp_path, PROGRAM.load({}, Path()))
    problem = _room_problem(replace(options, bookies=3))
    assert problem == f"{tmp_path} has 20 MiB free; 3 new bookies need 900"
    (tmp_path / "bookie-1").mkdir()
    assert _room_problem(options) == "", "one that has data may start on a full disk, to be read"
    assert "; 1 new bookie needs 300" in _room_problem(replace(options, bookies=2))
    assert "; 2 new bookies need 600" in _room_problem(replace(options, clusters=("us", "eu")))
    monkeypatch.undo()
    assert _room_problem(options) == ""


def java_reads(line: bytes) -> str:
    """Return a value of a properties file as Java reads it."""
    text = line.partition(b"=")[2].decode("latin-1")
    parts = text.split("\\u")
    units = [parts[0].encode("utf-16-be")]
    for part in parts[1:]:
        units += [bytes.fromhex(part[:4]), part[4:].encode("utf-16-be")]
    return b"".join(units).decode("utf-16-be")


@pytest.mark.parametrize(
    "name", ["plain", "with blank", "dätä", "back\\slash", "\U0001f600", "a=b#c"]
)
def test_zookeeper_reads_the_path_of_its_data_as_it_is(name: str) -> None:
    folder = Path("/some") / name / "zookeeper"
    [line] = [
        line
        for line in zookeeper_config(folder, "127.0.0.1", 1).encode().splitlines()
        if line.startswith(b"dataDir")
    ]
    assert java_reads(line) == str(folder)


@pytest.mark.parametrize("name", ["plain", "dätä"])
def test_data_that_zookeeper_kept_under_a_misread_path_is_moved_back(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name / "zookeeper"
    elsewhere = misread_by_java(folder)
    for made in {folder, elsewhere}:
        made.mkdir(parents=True)
    (elsewhere / "version-2").mkdir()
    (elsewhere / "version-2" / "log.1").write_text("all metadata")
    for _ in range(2):
        _move_misplaced_data(folder)
        assert (folder / "version-2" / "log.1").read_text() == "all metadata"
    (elsewhere / "version-2").mkdir(exist_ok=True)
    _move_misplaced_data(folder)
    assert (folder / "version-2" / "log.1").exists(), "what is in its place stays"


def test_redis_is_missed_at_the_start_only_by_several_gateways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> str:
        raise ProgramMissingError("no Redis found")

    monkeypatch.setattr(cli, "redis_server", missing)
    alone, among_two = (
        InstanceOptions(Path("/nowhere"), PROGRAM.load({"MAGNETAR_GATEWAYS": gateways}, Path()))
        for gateways in ("1", "2")
    )
    assert cli._redis(alone) == "redis-server"
    with pytest.raises(ProgramMissingError):
        cli._redis(among_two)


def test_the_children_are_printed_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = {"name": "broker-1", "cluster": "standalone", "pid": 1, "ports": {"pulsar": 6650}}
    monkeypatch.setattr(cli, "_request", lambda *_: {"children": [child]})
    assert cli.main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [child]


def test_a_start_says_where_each_cluster_is_and_how_a_namespace_comes_to_be_in_several(
    tmp_path: Path,
) -> None:
    urls = {"serviceUrl": "http://h:1", "brokerServiceUrl": "pulsar://h:2"}
    secured = {**urls, "serviceUrlTls": "https://h:3", "brokerServiceUrlTls": "pulsar+ssl://h:4"}
    [us, eu, how] = cli._cluster_lines({"us": urls, "eu": urls}, None)
    assert us.split() == ["cluster", "us", "pulsar://h:2", "http://h:1"]
    assert eu.split()[1] == "eu"
    assert shlex.split(how)[-3:] == [
        "-d",
        '["us", "eu"]',
        "http://h:1/admin/v2/namespaces/TENANT/NAMESPACE/replication",
    ]
    [us, _, how] = cli._cluster_lines({"us": secured, "eu": secured}, SecureFiles(tmp_path))
    assert us.split() == ["cluster", "us", "pulsar+ssl://h:4", "https://h:3"]
    assert f"curl --cacert {tmp_path}/secure/ca.pem -H @{tmp_path}/secure/superuser.header" in how
    assert shlex.split(how)[-1].startswith("https://h:3/admin/v2")
    assert cli._cluster_lines({}, None) == []
