"""Messages of pgoutput are read to the byte, and broken ones are refused as such."""

import random
from contextlib import suppress
from struct import pack

import pytest

from engine.functions.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    PgoutputError,
    Relation,
    RowChange,
    Truncation,
    lsn_text,
    parse,
    parse_lsn,
)

RELATION = b"R" + pack(">I", 5) + b"public\0t\0d" + pack(">h", 2) + b"\1id\0" + pack(">Ii", 23, -1)
RELATION += b"\0v\0" + pack(">Ii", 25, -1)
ROW = pack(">h", 3) + b"t" + pack(">I", 2) + b"17" + b"n" + b"u"
MESSAGES = {
    b"B" + pack(">QqI", 0x1600000010, 5_000_000, 9): Begin(0x1600000010, 946_684_805_000, 9),
    b"C" + pack(">BQQq", 0, 16, 32, 0): Commit(32),
    RELATION: Relation(5, "public", "t", "d", (Column("id", 23, True), Column("v", 25, False))),
    b"I" + pack(">I", 5) + b"N" + ROW: RowChange("I", 5, None, [b"17", None, UNCHANGED]),
    b"U" + pack(">I", 5) + b"K" + ROW + b"N" + ROW: RowChange(
        "U", 5, [b"17", None, UNCHANGED], [b"17", None, UNCHANGED]
    ),
    b"D" + pack(">I", 5) + b"O" + ROW: RowChange("D", 5, [b"17", None, UNCHANGED], None, True),
    b"T" + pack(">IBII", 2, 1, 5, 6): Truncation((5, 6)),
}


@pytest.mark.parametrize("data", MESSAGES)
def test_a_message_is_read(data: bytes) -> None:
    assert parse(data) == MESSAGES[data]


@pytest.mark.parametrize("kind", [b"Y", b"O", b"M"])
def test_kinds_without_rows_are_skipped(kind: bytes) -> None:
    assert parse(kind + b"anything") is None


@pytest.mark.parametrize("data", MESSAGES)
def test_a_message_that_is_cut_off_or_damaged_is_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(PgoutputError):
            parse(data[:end])
    chance = random.Random(1)
    for _ in range(500):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(PgoutputError):
            parse(bytes(damaged))


def test_a_place_of_the_log_is_written_as_the_server_does() -> None:
    assert lsn_text(0x16B374D848) == "16/B374D848"
    assert parse_lsn("16/B374D848") == 0x16B374D848
