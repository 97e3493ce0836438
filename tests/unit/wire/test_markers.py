"""Markers of replicated subscriptions, byte by byte as Apache's brokers write them."""

import pytest

from engine.base.ids import Position
from engine.wire.batches import read_metadata
from engine.wire.geo.markers import (
    REQUEST,
    RESPONSE,
    SNAPSHOT,
    UPDATE,
    ClusterSnapshot,
    SnapshotRequest,
    SnapshotResponse,
    SubscriptionUpdate,
    read_marker,
    request_marker,
    response_marker,
    snapshot_marker,
    update_marker,
)

ID = "6f5bd8bd-b0f4-4c4c-8b1e-0d9bb7f7ad6f"
AT = Position(7, 300)


def test_an_update_is_encoded_as_apache_encodes_it() -> None:
    entry = update_marker(SubscriptionUpdate("rs", {"eu": Position(4, 4)}), 5)
    assert entry.endswith(bytes.fromhex("0a027273120a0a02657512040804 1004"))
    metadata = read_metadata(entry)
    assert metadata is not None
    assert (metadata.producer_name, metadata.sequence_id) == ("pulsar.marker", 0)
    assert (metadata.publish_time, metadata.marker_type) == (5, UPDATE)
    assert not metadata.replicate_to


@pytest.mark.parametrize(
    ("entry", "kind", "content", "to"),
    [
        (request_marker(SnapshotRequest(ID, "us"), 1), REQUEST, SnapshotRequest(ID, "us"), []),
        (
            response_marker(SnapshotResponse(ID, "eu", AT), "us", 1),
            RESPONSE,
            SnapshotResponse(ID, "eu", AT),
            ["us"],
        ),
        (
            snapshot_marker(ClusterSnapshot(ID, AT, {"eu": AT, "ap": AT}), "us", 1),
            SNAPSHOT,
            ClusterSnapshot(ID, AT, {"ap": AT, "eu": AT}),
            ["us"],
        ),
        (
            update_marker(SubscriptionUpdate("s", {"eu": AT}), 1),
            UPDATE,
            SubscriptionUpdate("s", {"eu": AT}),
            [],
        ),
    ],
)
def test_markers_are_decoded_as_encoded_and_are_for_who_needs_them(
    entry: bytes, kind: int, content: object, to: list[str]
) -> None:
    metadata = read_metadata(entry)
    assert metadata is not None
    assert (metadata.marker_type, list(metadata.replicate_to)) == (kind, to)
    assert read_marker(entry, kind) == content


def test_the_position_before_a_ledger_has_entries_is_kept() -> None:
    entry = response_marker(SnapshotResponse(ID, "eu", Position(9, -1)), "us", 1)
    assert read_marker(entry, RESPONSE) == SnapshotResponse(ID, "eu", Position(9, -1))


def test_other_markers_and_damaged_ones_say_nothing() -> None:
    entry = request_marker(SnapshotRequest(ID, "us"), 1)
    assert read_marker(entry, 21) is None
    assert read_marker(entry, UPDATE) is None
    assert read_marker(entry[:8], REQUEST) is None
    assert (
        read_marker(response_marker(SnapshotResponse(ID, "", AT), "us", 1)[:-4], RESPONSE) is None
    )
