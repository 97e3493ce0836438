"""Ledger metadata: bytes seen on a live Apache instance and in BookKeeper's own vectors."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ledger.digest import DigestType
from engine.ledger.errors import MetadataFormatError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment, decode, encode

LIVE_OPEN = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330aa20108011001180020ffffffffffffffffff"
    "012801320b0a07626b307465737410003803420048015a440a1570756c7361722f6d616e616765642d6c656467657212"
    "2b7075626c69632f66756e6374696f6e732f70657273697374656e742f5f5f6368616e67655f6576656e74735a1b0a09"
    "636f6d706f6e656e74120e6d616e616765642d6c65646765725a150a0b6170706c69636174696f6e120670756c736172"
    "6000"
)
LIVE_CLOSED = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a95010801100118272000280332130a0f3132"
    "372e302e302e313a313834383310003803420048015a1b0a09636f6d706f6e656e74120e6d616e616765642d6c656467"
    "65725a380a1570756c7361722f6d616e616765642d6c6564676572121f7075626c69632f64656661756c742f70657273"
    "697374656e742f66656e63655a150a0b6170706c69636174696f6e120670756c7361726000"
)
MEMBERS = ("192.0.2.1:3181", "192.0.2.2:3181", "192.0.2.3:3181")
UPSTREAM = (
    b"BookieMetadataFormatVersion\t3\n"
    + bytes.fromhex("60 0802 1003 1800 20ffffffffffffffffff01 2801 3232".replace(" ", ""))
    + b"".join(b"\x0a\x0e" + member.encode() for member in MEMBERS)
    + bytes.fromhex("1000 3803 4206".replace(" ", ""))
    + b"foobar"
    + bytes.fromhex("4801 50ffffffffffffffffff01 6000".replace(" ", ""))
)
SEGMENTS = (Segment(0, MEMBERS),)


def test_live_open_ledger_round_trips_byte_for_byte() -> None:
    metadata = decode(LIVE_OPEN)
    assert metadata.segments == (Segment(0, ("bk0test",)),)
    assert (metadata.state, metadata.last_entry, metadata.length) == (LedgerState.OPEN, -1, 0)
    assert (metadata.digest, metadata.password) == (DigestType.CRC32C, b"")
    assert dict(metadata.custom) == {
        "pulsar/managed-ledger": b"public/functions/persistent/__change_events",
        "component": b"managed-ledger",
        "application": b"pulsar",
    }
    assert encode(metadata) == LIVE_OPEN


def test_live_recovered_ledger_round_trips_byte_for_byte() -> None:
    metadata = decode(LIVE_CLOSED)
    assert (metadata.state, metadata.last_entry, metadata.length) == (LedgerState.CLOSED, 0, 39)
    assert encode(metadata) == LIVE_CLOSED


def test_upstream_vector_of_version_3() -> None:
    metadata = decode(UPSTREAM)
    assert metadata == LedgerMetadata(
        3, 2, 1, SEGMENTS, digest=DigestType.CRC32C, password=b"foobar", ctime_ms=-1
    )
    assert encode(metadata) == UPSTREAM


def test_version_2_text_is_read() -> None:
    text = (
        "BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 3\nlength: 17\nlastEntryId: 4\n"
        'state: CLOSED\nsegment {\n  ensembleMember: "192.0.2.1:3181"\n'
        '  ensembleMember: "192.0.2.2:3181"\n  ensembleMember: "192.0.2.3:3181"\n  firstEntryId: 0\n}\n'
        'digestType: HMAC\npassword: "a\\000\\"b"\nackQuorumSize: 2\n'
        'customMetadata {\n  key: "k"\n  value: "v"\n}\n'
    )
    assert decode(text.encode()) == LedgerMetadata(
        3, 2, 2, SEGMENTS, LedgerState.CLOSED, 4, 17, DigestType.HMAC, b'a\0"b', custom={"k": b"v"}
    )


@pytest.mark.parametrize(
    ("tail", "state", "last"),
    [
        ("", LedgerState.OPEN, -1),
        ("9\tCLOSED\n", LedgerState.CLOSED, 9),
        ("-102\tCLOSED\n", LedgerState.IN_RECOVERY, -1),
    ],
)
def test_version_1_lines_are_read(tail: str, state: LedgerState, last: int) -> None:
    text = "BookieMetadataFormatVersion\t1\n2\n3\n0\n0\t" + "\t".join(MEMBERS) + "\n" + tail
    metadata = decode(text.encode())
    assert (metadata.write_quorum, metadata.ack_quorum, metadata.ensemble_size) == (2, 2, 3)
    assert (metadata.segments, metadata.state, metadata.last_entry) == (SEGMENTS, state, last)
    assert (metadata.digest, metadata.password) == (None, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"BookieMetadataFormatVersion\t4\n",
        b"BookieMetadataFormatVersion\t3\n",
        UPSTREAM[:-1],
        UPSTREAM + b"x",
        UPSTREAM.replace(b"192.0.2.2", b"192.0.2.1"),
        b"BookieMetadataFormatVersion\t2\nquorumSize 2",
        b"BookieMetadataFormatVersion\t1\n2\n",
    ],
)
def test_damaged_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(MetadataFormatError):
        decode(data)


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_decoded_or_refused(data: bytes) -> None:
    for version in (b"1", b"2", b"3"):
        with contextlib.suppress(MetadataFormatError):
            decode(b"BookieMetadataFormatVersion\t" + version + b"\n" + data)


def test_invalid_segments_and_quorums_are_refused() -> None:
    good = LedgerMetadata(3, 2, 1, SEGMENTS)
    for bad in (
        replace(good, ack_quorum=3),
        replace(good, ack_quorum=0),
        replace(good, segments=()),
        replace(good, segments=(Segment(1, MEMBERS),)),
        replace(good, segments=(*SEGMENTS, Segment(0, MEMBERS))),
        replace(good, segments=(Segment(0, MEMBERS[:2]),)),
        replace(good, last_entry=5),
    ):
        with pytest.raises(MetadataFormatError):
            encode(bad)


def test_ensemble_change_appends_or_replaces_the_last_segment() -> None:
    good = LedgerMetadata(3, 2, 1, SEGMENTS)
    other = ("a", "b", "c")
    assert good.with_ensemble(0, other).segments == (Segment(0, other),)
    changed = good.with_ensemble(7, other)
    assert changed.segments == (*SEGMENTS, Segment(7, other))
    assert [changed.bookies(e) for e in (0, 6, 7, 99)] == [MEMBERS, MEMBERS, other, other]
