"""Owners of ledgers by their custom metadata."""

import pytest

from engine.base.names import TopicName
from engine.repair.ledger_owners import owner_of


@pytest.mark.parametrize("local", ["t", "a b:c", "t-partition-3", "ü%2F"])
def test_ledgers_of_messages_and_cursors_belong_to_their_topic(local: str) -> None:
    topic = TopicName.parse(f"persistent://tenant/ns/{local}")
    custom = {"pulsar/managed-ledger": topic.managed_ledger_name.encode()}
    assert owner_of(custom) == topic.full
    assert owner_of({**custom, "pulsar/cursor": b"s"}) == topic.full


def test_other_ledgers_are_named_by_what_their_metadata_has() -> None:
    assert owner_of({"pulsar/compactedTopic": b"persistent://a/b/c"}) == "persistent://a/b/c"
    assert owner_of({"pulsar/schemaId": b"a/b/c"}) == "schemas of a/b/c"
    assert owner_of({"magnetar/package": b"sink://a/b/c@1"}) == "sink://a/b/c@1"
    assert owner_of({"pulsar/managed-ledger": b"odd"}) == "odd"
    assert owner_of({}) == ""
