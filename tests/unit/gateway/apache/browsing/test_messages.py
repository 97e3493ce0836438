"""Messages of a foreign topic: each entry by a request, with what Apache states of it and no more."""

from typing import Any

import pytest

from admin_ui.messages import selectors
from engine.base.errors import NotFound
from engine.base.names import TopicName
from gateway.apache.browsing.cursors import EntryPosition
from gateway.apache.browsing.messages import ledger_entries, positions_before, positions_from
from gateway.services.engine_link import EngineLink
from tests.support.net.recorded_apache import RecordedApache

MIXED = TopicName.parse("persistent://shop/eu/mixed")
AVRO = TopicName.parse("persistent://shop/eu/avro")
ENTRY = "/admin/v2/persistent/shop/eu/mixed/ledger/4/entry"
IDS = ["4:0", "4:1", "4:2", *(f"4:3:{index}" for index in range(5)), "4:4", "4:5"]


def page(link: EngineLink, topic: TopicName = MIXED, **params: str) -> Any:
    return link.run(lambda engine: selectors.page(engine, topic, params))


@pytest.mark.parametrize(("start", "ids"), [("earliest", IDS), ("latest", IDS[::-1])])
def test_all_messages_are_read_in_both_directions(
    link: EngineLink, start: str, ids: list[str]
) -> None:
    answer = page(link, start=start)
    assert [row["id"] for row in answer["rows"]] == ids
    assert answer["stopped"] == "end"
    assert answer["entries"] == 6


def test_a_message_has_what_apache_states_of_it_and_no_size(link: EngineLink) -> None:
    first, two, three, *rest = page(link, start="earliest")["rows"]
    assert (first["key"], first["event"], first["producer"]) == ("k1", 1700000000123, "plain")
    # Apache writes the euro sign as a space.
    assert first["properties"] == {"color": "red", "Ort": "Köln  "}
    assert two["value"]["text"] == '{"n": 9223372036854775807}'
    assert two["ordering_key"] == "bzE="
    assert (three["sequence"], three["value"]["form"]) == ("77", "bytes")
    batch = rest[:5]
    assert [row["properties"] for row in batch] == [{"i": str(index)} for index in range(5)]
    assert {(row["compression"], row["batch"]["size"]) for row in batch} == {("LZ4", 5)}
    assert rest[5]["compression"] == "ZSTD"
    assert {row["entry_bytes"] for row in [first, two, three, *rest]} == {None}


def test_a_message_that_apache_does_not_return_is_named_and_hides_no_other(
    link: EngineLink, apache: RecordedApache
) -> None:
    # Recorded: a broker answers 500 where the properties of a message exceed its header of 8 kB.
    assert page(link, start="earliest")["rows"][-1]["problem"].startswith(
        "Apache does not return it"
    )
    apache.entries[f"{ENTRY}/1"]["status"] = 500
    rows = page(link, start="earliest")["rows"]
    assert [row["id"] for row in rows] == IDS
    assert (rows[1]["kind"], rows[2]["kind"]) == ("damaged", "message")


def test_entries_that_were_deleted_meanwhile_or_aborted_are_left_out(
    link: EngineLink, apache: RecordedApache
) -> None:
    del apache.entries[f"{ENTRY}/0"]
    apache.entries[f"{ENTRY}/1"]["headers"]["X-Pulsar-txn-aborted"] = "true"
    apache.entries[f"{ENTRY}/2"]["headers"]["X-Pulsar-txn-uncommitted"] = "true"
    assert [row["id"] for row in page(link, start="earliest")["rows"]] == IDS[3:]


def test_a_page_continues_behind_the_last_one_within_a_batch(link: EngineLink) -> None:
    first = page(link, start="earliest", limit="5")
    second = page(link, start="earliest", after=first["after"])
    assert [row["id"] for row in first["rows"] + second["rows"]] == IDS


def test_one_message_is_read_by_its_position(link: EngineLink, apache: RecordedApache) -> None:
    apache.reads.clear()
    row = link.run(lambda engine: selectors.one(engine, MIXED, "4:3:2"))
    assert (row["key"], row["value"]["text"]) == ("k2", "b2")
    assert len([path for path in apache.reads if "/entry/" in path]) == 1
    with pytest.raises(NotFound, match="has no entry 9:1"):
        link.run(lambda engine: selectors.one(engine, MIXED, "9:1"))


def test_a_message_is_decoded_by_the_schema_version_that_it_names(link: EngineLink) -> None:
    (row,) = page(link, AVRO, start="earliest")["rows"]
    assert row["value"] == {
        "form": "json",
        "text": '{"a": "x", "n": 4611686018427387904}',
        "bytes": 14,
        "cut": False,
        "schema_version": 0,
        "error": None,
    }


def test_positions_are_those_of_the_ledgers() -> None:
    internal = {
        "state": "LedgerOpened",
        "ledgers": [{"ledgerId": 3, "entries": 2}, {"ledgerId": 9, "entries": 0}],
        "currentLedgerEntries": 2,
    }
    ledgers = ledger_entries(internal)
    everything = [
        EntryPosition(3, 0),
        EntryPosition(3, 1),
        EntryPosition(9, 0),
        EntryPosition(9, 1),
    ]
    assert list(positions_from(ledgers, EntryPosition(-1, -1))) == everything
    assert list(positions_from(ledgers, EntryPosition(3, 2))) == everything[2:]
    assert list(positions_before(ledgers, None)) == everything[::-1]
    assert list(positions_before(ledgers, EntryPosition(9, 1))) == everything[2::-1]
    assert list(positions_before(ledgers, EntryPosition(5, 7))) == everything[1::-1]
