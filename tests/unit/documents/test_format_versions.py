"""The table of format versions in the guide to upgrades agrees with the code: a new version needs a new promise."""

import re
from pathlib import Path

from bookie.storage.index import manifest
from bookie.storage.journal import journal_format
from bookie.storage.logs import entry_log_format
from engine.backup import backup_manifest, backup_records
from engine.broker.dispatch.delays import delay_format
from engine.ledger.ledger_metadata import LedgerMetadata, Segment, encode
from engine.metadata.server.storage import change_format
from gateway.services.history import history_file
from tests.support.import_graph import ROOT

PAGE = (ROOT / "docs" / "guides" / "upgrade.md").read_text()
MIGRATIONS = {
    "admin_ui": "admin_ui/migrations",
    "access": "gateway/access/migrations",
    "jobs": "gateway/jobs/migrations",
    "people": "gateway/people/migrations",
}


def written(name: str) -> str:
    """Return the version that the table states as written."""
    match = re.search(rf"^\| {re.escape(name)} \| ([^|]*?) \|", PAGE, re.MULTILINE)
    assert match is not None, name
    return match[1]


def last_migration(folder: Path) -> int:
    return max(int(path.name[:4]) for path in folder.glob("[0-9]*.py"))


def test_versions_of_files_are_those_of_the_code() -> None:
    versions = {
        "bookie journal": journal_format.VERSION,
        "bookie entry log": entry_log_format.VERSION,
        "bookie manifest": manifest.VERSION,
        "metadata log and snapshots": change_format.VERSION,
        "index of delayed entries": int(delay_format.MAGIC[-1:]),
        "numbers of the past": history_file.VERSION,
        "backup": backup_records.VERSION,
    }
    assert {name: written(name) for name in versions} == {
        name: str(version) for name, version in versions.items()
    }
    assert backup_manifest.FORMAT == backup_records.VERSION


def test_the_version_of_ledger_metadata_is_that_of_the_code() -> None:
    line = encode(LedgerMetadata(1, 1, 1, (Segment(0, ("b",)),))).split(b"\n")[0]
    assert written("ledger metadata") == line.rpartition(b"\t")[2].decode()


def test_the_last_migrations_are_those_of_the_code() -> None:
    numbers = {name: last_migration(ROOT / folder) for name, folder in MIGRATIONS.items()}
    assert written("console's database") == ", ".join(
        f"{name} {number}" for name, number in numbers.items()
    )
