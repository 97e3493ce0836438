"""Statements to shadow topics, as their brokers read them."""

import pytest

from engine.base.ids import Position
from engine.wire.batches import Message, pack_entry, read_metadata
from engine.wire.geo.shadow_statements import LEDGER_BYTES, stated_bytes, statement
from engine.wire.geo.source_positions import source_position


def test_a_statement_names_the_position_and_the_bytes_up_to_it() -> None:
    entry = statement("p", Position(3, 4), 500, 7)
    metadata = read_metadata(entry)
    assert metadata is not None
    assert source_position(metadata) == Position(3, 4)
    assert stated_bytes(entry) == 500


@pytest.mark.parametrize("text", ["", "-1", "x", "9" * 19, "²"])
def test_bytes_that_are_no_number_are_not_known(text: str) -> None:
    message = Message(b"", properties={LEDGER_BYTES: text})
    assert stated_bytes(pack_entry([message], producer_name="p", publish_ms=1)) == 0


@pytest.mark.parametrize("entry", [b"", b"x", b"\x0e\x01"])
def test_an_entry_without_metadata_names_none(entry: bytes) -> None:
    assert stated_bytes(entry) == 0
