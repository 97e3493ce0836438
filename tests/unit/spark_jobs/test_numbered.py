"""Batches whose messages have the sequence ids that official clients write: opened as any other."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import unpack_entry
from spark_jobs.pulsar_source import columns
from spark_jobs.pulsar_source.opening.numbered import fields, is_numbered, sections
from tests.unit.spark_jobs.test_columns import opened

FIRSTS = st.integers(0, 300) | st.integers(16_370, 16_390) | st.integers(2**63 - 40, 2**64 - 40)
VALUES = st.none() | st.binary(max_size=4) | st.just(b"same")
KEYS = st.sampled_from(["", "k", "@\x05", "key@\x01"])


@pytest.fixture(scope="module", params=[16, 1], autouse=True)
def alike_min(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "ALIKE_MIN", request.param)
        yield


def batch(first: int, members: Sequence[tuple[int | None, bytes | None, str]]) -> bytes:
    """Return an entry with members of a sequence id, a value and a key."""
    payload = b""
    for number, value, key in members:
        member = pb.SingleMessageMetadata(payload_size=len(value or b""))
        if key:
            member.partition_key = key
        if value is None:
            member.null_value = True
        raw = member.SerializeToString()
        if number is not None:
            raw += pb.SingleMessageMetadata(sequence_id=number).SerializePartialToString()
        payload += len(raw).to_bytes(4, "big") + raw + (value or b"")
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=first, publish_time=1, num_messages_in_batch=len(members)
    ).SerializeToString()
    return len(metadata).to_bytes(4, "big") + metadata + payload


def check(entry: bytes) -> None:
    result = opened([entry])
    assert result.problem == ""
    columns, known = result.messages, unpack_entry(entry).messages
    assert columns["value"].to_pylist() == [message.value for message in known]
    assert columns["key"].to_pylist() == [message.key for message in known]
    assert columns["sequence_id"].to_pylist() == [message.sequence_id for message in known]


@given(FIRSTS, st.lists(st.tuples(VALUES, KEYS), min_size=1, max_size=40))
def test_messages_numbered_by_their_batch_are_opened(
    first: int, members: list[tuple[bytes | None, str]]
) -> None:
    check(batch(first, [(first + i, *member) for i, member in enumerate(members)]))


@given(
    st.integers(0, 130),
    st.lists(st.tuples(st.none() | st.integers(0, 200), VALUES, KEYS), min_size=1, max_size=40),
)
def test_messages_with_other_numbers_or_none_keep_them(
    first: int, others: list[tuple[int | None, bytes | None, str]]
) -> None:
    check(batch(first, [(first, b"same", ""), *others]))


def test_numbers_are_counted_over_the_lengths_of_their_fields() -> None:
    assert list(sections(126, 4)) == [(2, 2), (2, 3)]
    assert list(sections(0, 1)) == [(1, 2)]
    for first, count, size in ((126, 2, 2), (128, 2, 3), (16_384, 1, 4)):
        encoded = [
            pb.SingleMessageMetadata(sequence_id=first + i).SerializePartialToString()
            for i in range(count)
        ]
        assert [row.tobytes() for row in fields(first, count, size)] == encoded


def test_numbers_that_do_not_fit_are_left_to_the_decoder() -> None:
    raw = pb.SingleMessageMetadata(sequence_id=2**63).SerializePartialToString()
    assert not is_numbered(2**63, 1, raw)
    assert not is_numbered(5, 1, b"")
