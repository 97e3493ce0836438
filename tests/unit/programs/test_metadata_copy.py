"""The command ``metadata copy``: its exit status and the line that an operator reads."""

import logging

import pytest

from engine.metadata.connect import MetadataUrl
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import StoreUnavailableError
from engine.programs import metadata_copy

SOURCE, TARGET = "zk:source:2181", "zk:target:2181"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("redis:x", TARGET), "source must be "),
        ((SOURCE, "zk:"), "target must be "),
        ((SOURCE, SOURCE), "source and target must be different stores"),
        ((SOURCE, "zk:other:2181,source:2181/prod"), "source and target must be different stores"),
        ((f"{SOURCE}/prod/a", f"{SOURCE}/prod"), "source and target must be different stores"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: tuple[str, str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert metadata_copy.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"magnetar: {line}")


def test_a_copy_reports_what_was_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def connect(url: str) -> MemoryStore:
        store = MemoryServer().session()
        if url == SOURCE:
            await store.create("/a", b"1")
            await store.create("/e", ephemeral=True)
        return store

    monkeypatch.setattr(metadata_copy, "connect", connect)
    assert metadata_copy.main((SOURCE, TARGET)) == 0
    assert capsys.readouterr().out.startswith("2 nodes copied and compared; 1 ephemeral ones")


def test_a_target_that_is_not_empty_and_a_lost_store_are_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def filled(url: str) -> MemoryStore:
        store = MemoryServer().session()
        await store.create("/mine", b"1")
        return store

    async def lost(url: str) -> MemoryStore:
        raise StoreUnavailableError("no server")

    monkeypatch.setattr(metadata_copy, "connect", filled)
    assert metadata_copy.main((SOURCE, TARGET)) == 1
    monkeypatch.setattr(metadata_copy, "connect", lost)
    assert metadata_copy.main((SOURCE, TARGET)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("magnetar: the target is not empty")
    assert lines[1] == f"magnetar: cannot reach the source {SOURCE}: no server"


def test_a_store_that_is_lost_during_the_copy_is_an_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def connect(url: str) -> MemoryStore:
        return MemoryServer(on_call=lambda *_: Fault(lose_reply=True)).session()

    monkeypatch.setattr(metadata_copy, "connect", connect)
    assert metadata_copy.main((SOURCE, TARGET)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("magnetar: interrupted: ")
    assert line.endswith("Continue with the same command")


def test_attempts_to_connect_are_not_reported_beside_the_outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refused(url: str) -> MemoryStore:
        logging.getLogger("kazoo").error("Connection dropped: socket connection error")
        raise StoreUnavailableError("no ZooKeeper")

    monkeypatch.setattr(metadata_copy, "connect", refused)
    logger = logging.getLogger("kazoo")
    monkeypatch.setattr(logger, "level", logging.WARNING)
    reported: list[logging.LogRecord] = []
    monkeypatch.setattr(logger, "handle", reported.append)
    assert metadata_copy.main((SOURCE, TARGET)) == 1
    assert reported == []
    assert capsys.readouterr().err.splitlines() == [
        f"magnetar: cannot reach the source {SOURCE}: no ZooKeeper"
    ]


@pytest.mark.parametrize(
    ("source", "target", "inside"),
    [
        ("zk:a:1", "zk:b:1", ""),
        ("zk:a:1", "zk:b:1/prod", "/prod"),
        ("zk:a:1/prod", "zk:b:1/prod/a", "/a"),
        ("zk:a:1/prod", "zk:b:1/production", None),
        ("zk:a:1/prod", "zk:b:1", None),
        ("zk:a:1", "etcd:http://a:1/prod", None),
    ],
)
def test_the_path_of_a_target_in_a_source_of_the_same_server(
    source: str, target: str, inside: str | None
) -> None:
    urls = MetadataUrl.parse(source), MetadataUrl.parse(target)
    assert metadata_copy._inside(*urls) == inside
