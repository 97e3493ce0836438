"""Records that Apache left in a live ZooKeeper (``tests/oracle`` writes them): ours are the same bytes.

Ledgers of topics and cursors are numbered from 1 there, and any time is 1.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.cookies import cookie_text
from engine.base.ids import Position
from engine.ledger.digest import DigestType
from engine.ledger.ledger_metadata import LedgerMetadata, Segment, decode, encode
from engine.managed.positions import LedgerSpan
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.metadata.layout import LAYOUT
from engine.metadata.records import BookieRegistration, Cookie

RECORDS = {
    what: bytes.fromhex(text)
    for what, text in json.loads(Path(__file__).with_name("apache.json").read_text()).items()
}


def test_layout() -> None:
    assert RECORDS["layout"] == LAYOUT


def test_cookie() -> None:
    known = Cookie.decode(RECORDS["cookie"])
    instance = str(known.instance_id)
    made = cookie_text(known.bookie_id, "/data/journal", ["/data/ledgers"], instance)
    assert made == RECORDS["cookie"]


def test_registration() -> None:
    record = BookieRegistration.decode(RECORDS["registration"])
    host, port = record.address("")
    http = int(str(record.http_url()).rpartition(":")[2])
    assert BookieRegistration.at(host, port, http).encode() == RECORDS["registration"]


@pytest.fixture
def opened() -> LedgerMetadata:
    """Return the metadata with which the recorded ledger was created."""
    return LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        segments=decode(RECORDS["ledger open"]).segments,
        digest=DigestType.CRC32C,
        password=b"secret",
        custom={"a": b"b"},
    )


def test_ledger_metadata(opened: LedgerMetadata) -> None:
    assert encode(opened) == RECORDS["ledger open"]
    assert encode(opened.closed(6, 700)) == RECORDS["ledger closed"]
    nowhere = replace(opened, segments=(Segment(0, ("a:1", "b:1", "c:1")),), password=b"")
    assert encode(nowhere.recovering()) == RECORDS["ledger in recovery"]


@pytest.mark.parametrize("state", ["open", "closed"])
def test_topic(state: str) -> None:
    assert LogRecord([LedgerSpan(1)]).encode() == RECORDS[f"topic {state}"]


SINGLE = [(1, 2), (4, 4), (30, 30), (39, 39)]
"""Entries acknowledged on their own, both ends inclusive."""

CURSORS = {
    "cursor open /untouched": CursorRecord(-1, CursorState(Position(1, -1)), 1),
    "cursor open /up-to": CursorRecord(1, CursorState(Position(1, -1)), 1),
    "cursor open /here+and%2Fthere": CursorRecord(1, CursorState(Position(1, -1)), 1),
    "cursor closed /untouched": CursorRecord(-1, CursorState(Position(1, -1)), 1),
    "cursor closed /up-to": CursorRecord(-1, CursorState(Position(1, 20)), 1),
    "cursor closed /here+and%2Fthere": CursorRecord(
        -1,
        CursorState(
            Position(1, -1),
            [(Position(1, first), Position(1, last)) for first, last in SINGLE],
        ),
        1,
    ),
}


@pytest.mark.parametrize("what", list(CURSORS))
def test_cursor(what: str) -> None:
    assert CURSORS[what].encode() == RECORDS[what]
    assert CursorRecord.decode(RECORDS[what]) == CURSORS[what]
