"""Entries decoded together: they agree with those that are decoded one by one, up to the first that is not plain."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.crc32c import crc32c
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from spark_jobs.pulsar_source.columns import MESSAGES, EntryColumns
from spark_jobs.pulsar_source.opening.plain import intact, plain_entries
from tests.unit.spark_jobs.test_columns import run_of

OTHERS = (
    pack_entry([Message(b"v")], producer_name="p", publish_ms=1, checksum=False),
    pack_entry([Message(b"v")], producer_name="n" * 128, publish_ms=1),
    pack_entry([Message(b"v", sequence_id=2**64 - 1)], producer_name="p", publish_ms=1),
    b"",
    b"\x0e\x01" + bytes(12),
)
"""Entries that are not decoded together."""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["p", "producer"]), st.integers(0, 2**63 - 1), st.integers(1, 2**50)
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(OTHERS),
)
def test_entries_are_decoded_up_to_the_first_that_is_not_plain(
    messages: list[tuple[str, int, int]], other: bytes
) -> None:
    parts = [
        pack_entry([Message(b"v", sequence_id=number)], producer_name=name, publish_ms=time_ms)
        for name, number, time_ms in messages
    ]
    run = run_of([*parts, other, *parts])
    plain = plain_entries(run, 0, 100)
    names = zip(plain.names.tolist(), plain.name_ends.tolist(), strict=True)
    assert (
        list(
            zip(
                (run.buf[a:b].decode() for a, b in names),
                plain.sequence_ids.tolist(),
                plain.publish_ms.tolist(),
                strict=True,
            )
        )
        == messages
    )
    assert {run.buf[a:b] for a, b in zip(plain.bodies, plain.stops, strict=True)} == {b"v"}
    assert intact(run, plain, len(parts)) == len(parts)
    assert len(plain_entries(run, 0, len(parts) - 1).stops) == len(parts) - 1


def test_entries_are_opened_together_up_to_one_that_is_damaged() -> None:
    parts = [
        pack_entry([Message(b"value", sequence_id=i)], producer_name="p", publish_ms=5)
        for i in range(100)
    ]
    parts[40] = parts[40][:-1] + b"x"
    columns = EntryColumns(MESSAGES.names)
    assert list(columns.add(run_of(parts))) == []
    opened = columns.take()
    assert opened.problem == "entry 140: its checksum does not match"
    assert opened.messages["sequence_id"].to_pylist() == [i for i in range(100) if i != 40]


def test_fields_that_are_there_twice_count_as_they_are_last() -> None:
    def twice(number: int) -> bytes:
        again = pb.MessageMetadata(producer_name="q", sequence_id=7, publish_time=9)
        head = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=5)
        metadata = head.SerializeToString() + again.SerializeToString()
        body = len(metadata).to_bytes(4, "big") + metadata + b"v"
        return b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body

    checked = [pack_entry([Message(b"v")], producer_name="p", publish_ms=5) for _ in range(20)]
    columns = EntryColumns(MESSAGES.names)
    assert list(columns.add(run_of([*checked, *map(twice, range(20))]))) == []
    entries = columns.take().entries
    assert entries["producer_name"].to_pylist() == ["p"] * 20 + ["q"] * 20
    assert entries["publish_ms"].to_pylist() == [5] * 20 + [9] * 20
