"""The registry's records, Apache's to the byte."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.metadata.records import RecordFormatError
from engine.schema.kinds import Schema, SchemaKind
from engine.schema.locator import (
    DELETED,
    Registered,
    SchemaVersion,
    digest_of,
    entry,
    locator,
    parse_entry,
    parse_locator,
)
from engine.tenancy.change_events import SCHEMA_TEXT
from tests.support.admin.later_release import newer

GOLDEN = Path(__file__).resolve().parents[2] / "golden/change_events/apache.json"
APACHE: dict[str, Any] = json.loads(GOLDEN.read_text())
OURS = Schema(
    SchemaKind.AVRO,
    SCHEMA_TEXT.encode(),
    {"__jsr310ConversionEnabled": "false", "__alwaysAllowNull": "true"},
)


def test_the_locator_is_apaches_to_the_byte() -> None:
    value = bytes.fromhex(APACHE["schema_locator"])
    newest, versions = parse_locator(value)
    assert newest == 1
    assert [(version.version, version.ledger_id, version.entry_id) for version in versions] == [
        (0, 3, 0),
        (1, 9, 0),
    ]
    assert versions[0].hash == digest_of(OURS)
    assert versions[1].hash == sha256(newer().encode()).digest()
    assert locator(versions) == value


def test_the_entry_is_apaches_to_the_byte() -> None:
    registered = Registered(OURS, APACHE["schema_entry_ms"])
    made = entry("public/pol/__change_events", registered)
    assert sha256(made).hexdigest() == APACHE["schema_entry_sha256"]
    assert parse_entry(made) == registered


@pytest.mark.parametrize("kind", list(SchemaKind))
def test_every_kind_is_read_as_it_was_written(kind: SchemaKind) -> None:
    registered = Registered(Schema(kind, b"x", {"a": "b", "": "\u00e9"}), 5)
    before = [SchemaVersion(0, 1, 0, b"h")]
    assert parse_entry(entry("a/b/c", registered, before)) == registered


def test_a_deletion_holds_nothing() -> None:
    gone = Registered(DELETED, 7, deleted=True)
    assert parse_entry(entry("a/b/c", gone)) == gone


@pytest.mark.parametrize("parse", [parse_locator, parse_entry])
def test_damaged_records_are_refused(parse: Any) -> None:
    value = bytes.fromhex(APACHE["schema_locator"])
    for data in (b"", b"\x12", b"\x0a\x02\x08\x01", b"\x12\x02\x08", value[:-1]):
        with pytest.raises(RecordFormatError, match="schema"):
            parse(data)
