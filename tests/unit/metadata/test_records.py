"""Stored records against the bytes of a live Apache instance, and the layout of paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.metadata import paths
from engine.metadata.protobuf.prototext import escape, parse_text, unescape
from engine.metadata.records import BookieRegistration, Cookie, RecordFormatError

LIVE = [
    (Cookie, b'5\nbookieHost: "127.0.0.1:18483"\njournalDir: "/data/d3/j"\nledgerDirs: "1\\t/data/d3/l"\n'
     b'instanceId: "97d9d3a3-9b22-42bb-8972-777b8ca6f52c"\n'),
    (Cookie, b'5\nbookieHost: "bk0test"\njournalDir: "/data/d2/bk0"\nledgerDirs: "1\\t/data/d2/bk0"\n'),
    (BookieRegistration, bytes.fromhex(
        "32230a06626f6f6b696510b390011a093132372e302e302e31220a626f6f6b69652d727063")),
]  # fmt: skip


@pytest.mark.parametrize(("record", "data"), LIVE)
def test_live_records_round_trip_byte_for_byte(record: type, data: bytes) -> None:
    assert record.decode(data).encode() == data  # type: ignore[attr-defined]


def test_bookie_address_comes_from_the_record_or_the_id() -> None:
    record = BookieRegistration.at("10.0.0.1", 3181)
    assert BookieRegistration.decode(record.encode()).address("b0") == ("10.0.0.1", 3181)
    assert BookieRegistration.decode(b"").address("10.0.0.2:3182") == ("10.0.0.2", 3182)
    with pytest.raises(RecordFormatError):
        BookieRegistration.decode(b"").address("b0")


@pytest.mark.parametrize("record", [Cookie, BookieRegistration])
def test_damaged_records_are_refused_by_name(record: type) -> None:
    with pytest.raises(RecordFormatError):
        record.decode(b"\x08")  # type: ignore[attr-defined]


@given(st.binary(max_size=40))
def test_quoted_text_round_trips(value: bytes) -> None:
    assert unescape(escape(value)) == value
    assert parse_text(f"field: {escape(value)}\n") == {"field": [value]}


def test_names_are_form_encoded_once() -> None:
    assert (
        paths.cursor("t/ns/persistent/x", "sub/with slash")
        == "/managed-ledgers/t/ns/persistent/x/sub%2Fwith+slash"
    )


@given(st.integers(0, (1 << 63) - 1))
def test_ledger_paths_name_their_ids(ledger_id: int) -> None:
    assert paths.ledger_id(paths.ledger(ledger_id)) == ledger_id


def test_ledger_paths_equal_those_of_bookkeeper() -> None:
    assert paths.ledger(1) == "/ledgers/00/0000/L0001"
    assert paths.ledger((1 << 31) - 1) == "/ledgers/000/0000/0021/4748/L3647"
    for other in (
        "/ledgers/available",
        "/ledgers/LAYOUT",
        "/ledgers/00/0000/X0001",
        "/ledgers/00/L0001",
    ):
        assert paths.ledger_id(other) is None
