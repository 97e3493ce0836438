"""``backup --verify`` checks a folder, and with ``--objects`` the buckets that it names."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.backup.backup_manifest import BackupManifest, Counts
from engine.backup.errors import RestoreError
from engine.programs import cluster_backups
from magnetar.command.backup import command

MANIFEST = BackupManifest("b", "1", 1, 2, "i", 1, Counts(), 1, {}, moved={"aws-s3 cold": 3})


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether each check of a backup was also one of the buckets."""
    asked: list[bool] = []

    def check(folder: Path, settings: object = None) -> BackupManifest:
        asked.append(settings is not None)
        return MANIFEST

    monkeypatch.setattr(cluster_backups, "check", check)
    return asked


def test_a_check_says_what_is_not_in_the_backup_and_finds_it_on_request(checks: list[bool]) -> None:
    alone = CliRunner().invoke(command, ["saved", "--verify"])
    assert alone.exit_code == 0, alone.output
    assert "not in the backup: 3 ledgers that are only in aws-s3 cold" in alone.output
    assert "was found in its bucket" not in alone.output
    checked = CliRunner().invoke(command, ["saved", "--verify", "--objects"])
    assert (
        "each of the ledgers that are not in the backup was found in its bucket" in checked.output
    )
    assert (
        '"objects": 3'
        in CliRunner().invoke(command, ["saved", "--verify", "--objects", "--json"]).output
    )
    assert checks == [False, True, True]


def test_objects_that_are_missing_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(folder: Path, settings: object = None) -> BackupManifest:
        raise RestoreError("1 of 3 ledgers that are only in tiered storage cannot be read there")

    monkeypatch.setattr(cluster_backups, "check", check)
    refused = CliRunner().invoke(command, ["saved", "--verify", "--objects"])
    assert refused.exit_code != 0
    assert "1 of 3 ledgers" in refused.output + str(refused.exception)


def test_objects_are_checked_only_of_a_backup_that_exists(checks: list[bool]) -> None:
    refused = CliRunner().invoke(command, ["saved", "--objects"])
    assert refused.exit_code == 2
    assert "give --verify with it" in refused.output
    assert checks == []
