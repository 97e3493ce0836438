"""Bytes of the log: every change returns as it was, and no damaged record is read."""

import pytest

from engine.metadata.server.changes import (
    AclSet,
    Change,
    ChildrenChanged,
    DataSet,
    NodeDeleted,
    NodePut,
    SessionClosed,
    SessionOpened,
    Transaction,
)
from engine.metadata.server.protocol import OPEN_ACL, AclEntry
from engine.metadata.server.storage.change_format import (
    LOG_MAGIC,
    SNAPSHOT_MAGIC,
    StoreFileHeader,
    UnreadableRecordError,
    decode_changes,
    decode_header,
    decode_record_head,
    decode_transactions,
    encode_changes,
    encode_record,
    encode_transactions,
    verifies,
)

ACL = (AclEntry(31, "digest", "üser:x="), AclEntry(-1, "ip", "10.0.0.1/8"))
CHANGES: list[Change] = [
    NodePut("/ä/b", b"data", ACL, 1, 2, 3, 4, 5, -6, 7, -(1 << 63), 9),
    NodePut("/none", None, OPEN_ACL, 1, 2, 3, 4, 5, 6, 7, 0, 9),
    NodePut("/empty", b"", (), 1, 2, 3, 4, 5, 6, 7, 8, 9),
    DataSet("/a", b"\0" * 300, 1 << 40, 1_700_000_000_000, -(1 << 31)),
    DataSet("/a", None, 1, 2, 3),
    DataSet("/a", b"", 1, 2, 3),
    AclSet("/a", ACL, 4),
    ChildrenChanged("/", 12, 13),
    NodeDeleted("/a"),
    SessionOpened(0x1234567890ABCDEF, 30_000, b"p" * 16),
    SessionClosed(-5),
]


def test_changes_return_as_they_were() -> None:
    assert list(decode_changes(encode_changes(CHANGES))) == CHANGES


def test_transactions_return_as_they_were() -> None:
    transactions = [
        Transaction(1 << 32 | 1, 5, tuple(CHANGES)),
        Transaction(1 << 32 | 2, 6, ()),
        Transaction(1 << 32 | 3, 7, (CHANGES[0],)),
    ]
    assert list(decode_transactions(encode_transactions(transactions))) == transactions


def test_every_cut_and_every_flipped_byte_of_a_record_is_noticed() -> None:
    body = encode_transactions([Transaction(7, 8, (DataSet("/a", b"x", 7, 8, 1),))])
    record = encode_record(b"saltsalt", 3, body)
    head = decode_record_head(record, 0)
    assert head is not None
    assert verifies(head, record[24:])
    for i in range(8, len(record)):  # the salt is compared with the header's
        flipped = bytearray(record)
        flipped[i] ^= 1
        damaged = decode_record_head(bytes(flipped), 0)
        assert damaged is not None
        assert not verifies(damaged, bytes(flipped[24:]))
        assert not verifies(head, record[24:i])


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_body_that_verifies_but_is_of_another_form_is_refused(cut: int) -> None:
    body = encode_changes(CHANGES[:1])
    with pytest.raises(UnreadableRecordError):
        list(decode_changes(body[: len(body) - cut]))
    with pytest.raises(UnreadableRecordError):
        list(decode_changes(b"\x63" + body))


def test_a_header_of_another_kind_version_or_content_is_refused() -> None:
    header = StoreFileHeader(LOG_MAGIC, b"i" * 16, b"s" * 8, 3, 4, 5)
    data = header.encode()
    assert decode_header(data, LOG_MAGIC) == header
    assert decode_header(data, SNAPSHOT_MAGIC) is None
    assert decode_header(data[:-1], LOG_MAGIC) is None
    for i in range(len(data)):
        flipped = bytearray(data)
        flipped[i] ^= 1
        assert decode_header(bytes(flipped), LOG_MAGIC) is None
