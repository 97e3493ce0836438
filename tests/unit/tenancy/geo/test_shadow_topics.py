"""Names and properties of shadow topics."""

import pytest

from engine.base.errors import PreconditionFailed
from engine.base.names import SHADOW_SOURCE, TopicName
from engine.tenancy.geo.shadow_topics import (
    check_names,
    check_unchanged,
    partition_record,
    shadow_at,
    source_of,
)
from engine.wire import mledger_pb2 as pb

SOURCE = "persistent://t/n/source"


def test_the_source_is_read_from_the_properties() -> None:
    assert source_of({SHADOW_SOURCE: SOURCE}) == TopicName.parse(SOURCE)
    assert source_of({"a": SOURCE}) is None


@pytest.mark.parametrize("text", ["", "x://y", "non-persistent://t/n/source"])
def test_a_source_that_is_no_persistent_topic_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match=SHADOW_SOURCE):
        source_of({SHADOW_SOURCE: text})


def test_a_partition_has_the_source_s_partition_of_its_number() -> None:
    record = pb.ManagedLedgerInfo.FromString(partition_record({SHADOW_SOURCE: SOURCE}, 3))
    assert [(pair.key, pair.value) for pair in record.properties] == [
        (SHADOW_SOURCE, f"{SOURCE}-partition-3")
    ]
    assert partition_record({"a": "b"}, 3) == partition_record(None, 3) == b""


def test_the_shadow_of_a_partition_is_that_of_its_number() -> None:
    assert shadow_at(SOURCE, -1).full == SOURCE
    assert shadow_at(SOURCE, 2).full == f"{SOURCE}-partition-2"


def test_the_source_is_not_changed() -> None:
    check_unchanged({"a": None})
    with pytest.raises(PreconditionFailed, match="does not change"):
        check_unchanged({SHADOW_SOURCE: None})


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "Cannot specify empty shadow topics, please use remove command instead."),
        (["x://y"], "Invalid shadow topic name: x://y"),
        (["non-persistent://t/n/a"], "Only persistent topic can be set as shadow topic"),
    ],
)
def test_a_list_of_shadow_topics_that_no_source_can_have_is_refused(
    names: list[str], text: str
) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        check_names(names)
