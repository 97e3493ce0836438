"""The figures of a profile against a plain recount, however the entries were divided and their cells put together."""

import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry, unpack_entry
from spark_jobs.jobs.kit.cells import CELLS, Gathered, added
from spark_jobs.jobs.kit.series import POINTS_MAX, point_step_ms
from spark_jobs.jobs.topic_profile import counting
from spark_jobs.jobs.topic_profile.counting import compact, ranked_batches
from spark_jobs.jobs.topic_profile.job import result_of
from spark_jobs.pulsar_source.columns import EntryColumns
from spark_jobs.pulsar_source.partitions import LedgerRange

BEGIN_MS = 1_700_000_000_000
KEYS = ["a", "b", "ключ", ""]
MESSAGE = st.builds(
    Message,
    value=st.none() | st.binary(max_size=9) | st.integers(1000, 5000).map(bytes),
    key=st.none() | st.sampled_from(KEYS),
)
TIMES = st.integers(0, 90) | st.integers(0, 10**5) | st.integers(0, 10**8) | st.integers(0, 10**10)


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    batched = draw(st.booleans())
    count = draw(st.integers(1, 5)) if batched else 1
    return pack_entry(
        draw(st.lists(MESSAGE, min_size=count, max_size=count)),
        producer_name=draw(st.sampled_from(["p", "q"])),
        publish_ms=BEGIN_MS + draw(TIMES),
        batched=batched,
        compression=draw(st.sampled_from([0, 0, 1, 2, 3, 4])),
    )


TOPICS = st.lists(entries(), min_size=1, max_size=12)


def cells_of(parts: Sequence[bytes]) -> pa.Table:
    spans, at = [], 0
    for part in parts:
        spans += [at, at + len(part)]
        at += len(part)
    columns = EntryColumns(counting.COLUMNS)
    gathered = Gathered(compact)
    run = Slice(b"".join(parts), spans, at, ledger_id=1, first=0)
    for opened in [*columns.add(run), columns.take()]:
        gathered.add(counting.cells_of(opened))
    return gathered.take()


def by_spark(tables: Sequence[pa.Table], shuffled: int, limit: int) -> pa.Table:
    """Shuffle the cells of tasks by name, add them up and rank them in each partition, as Spark does."""
    together = added(tables)
    names = zip(*(together[name].to_pylist() for name in ("kind", "name", "at")), strict=True)
    place = np.array([hash(name) % shuffled for name in names])
    ranked = []
    for number in range(shuffled):
        mine = together.filter(pa.array(place == number))
        ranked += list(ranked_batches(mine.to_batches(max_chunksize=7), limit))
    return pa.Table.from_batches(ranked, schema=CELLS)


def result(parts: Sequence[bytes], limit: int = 20, cells: pa.Table | None = None) -> Any:
    given_cells = by_spark([cells_of(parts)], 1, limit) if cells is None else cells
    return result_of(given_cells, "t", [LedgerRange(1, 0, len(parts) - 1)], limit)


def facts(profile: Any) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in profile["summary"]}


def points(profile: Any, key: str) -> list[Any]:
    return next(series["points"] for series in profile["series"] if series["key"] == key)


def rows(profile: Any, key: str) -> list[Any]:
    return next(table["rows"] for table in profile["tables"] if table["key"] == key)


def power(number: int) -> int:
    return 1 << (number.bit_length() - 1) if number else 0


@settings(max_examples=50)
@given(TOPICS, st.integers(1, 3))
def test_the_figures_are_those_of_a_plain_recount(parts: list[bytes], limit: int) -> None:
    profile = result(parts, limit)
    unpacked = [unpack_entry(part) for part in parts]
    messages = [(entry, message) for entry in unpacked for message in entry.messages]
    sizes = sorted(len(message.value or b"") for _, message in messages)
    times = [entry.publish_ms for entry in unpacked]
    packed = [entry for entry in unpacked if entry.compression != "NONE"]
    keys = Counter(message.key for _, message in messages if message.key is not None)
    summary = facts(profile)
    exact = {
        "messages": len(messages),
        "entries": len(parts),
        "stored_bytes": sum(map(len, parts)),
        "value_bytes": sum(sizes),
        "first_publish": min(times),
        "last_publish": max(times),
        "size_mean": pytest.approx(sum(sizes) / len(sizes)),
        "size_max": sizes[-1],
        "keys": len(keys),
        "producers": len({entry.producer_name for entry in unpacked}),
        "batch_mean": pytest.approx(len(messages) / len(parts)),
    }
    assert {key: summary[key] for key in exact} == exact
    for key, share in (("size_p50", 0.5), ("size_p99", 0.99)):
        true = sizes[-int(-share * len(sizes) // 1) - 1]
        assert true <= summary[key] <= true * (1 + 2**-9)
    before = sum(entry.payload_bytes for entry in packed)
    after = sum(entry.packed_bytes for entry in packed)
    assert summary["compression_ratio"] == (before / after if after else None)
    assert points(profile, "sizes") == [list(i) for i in sorted(Counter(map(power, sizes)).items())]
    counts = Counter(power(len(entry.messages)) for entry in unpacked)
    assert points(profile, "batches") == [list(item) for item in sorted(counts.items())]
    spread = Counter(map(power, keys.values()))
    assert points(profile, "key_spread") == [list(item) for item in sorted(spread.items())]
    ranked = sorted(keys.items(), key=lambda item: (-item[1], item[0]))[:limit]
    assert [row[:2] for row in rows(profile, "top_keys")] == [list(item) for item in ranked]
    for key, count, share, size in rows(profile, "top_keys"):
        assert share == pytest.approx(100 * count / len(messages))
        assert size == sum(len(m.value or b"") for _, m in messages if m.key == key)
    if ranked:
        assert summary["key_share"] == pytest.approx(100 * ranked[0][1] / len(messages))
        assert summary["key_skew"] == pytest.approx(ranked[0][1] * len(keys) / sum(keys.values()))
    producers = Counter(entry.producer_name for entry, _ in messages).most_common(limit)
    assert [row[1] for row in rows(profile, "top_producers")] == [count for _, count in producers]
    for codec, count, _, plain, small in rows(profile, "compression"):
        of_codec = [entry for entry in unpacked if entry.compression == codec]
        assert count == len(of_codec)
        assert plain == sum(entry.payload_bytes for entry in of_codec)
        assert small == sum(entry.packed_bytes for entry in of_codec)


@settings(max_examples=50)
@given(TOPICS)
def test_the_rate_adds_up_and_its_points_lie_on_whole_steps(parts: list[bytes]) -> None:
    profile = result(parts)
    unpacked = [unpack_entry(part) for part in parts]
    rate = points(profile, "rate")
    assert len(rate) <= POINTS_MAX
    first, last = (
        min(entry.publish_ms for entry in unpacked),
        max(entry.publish_ms for entry in unpacked),
    )
    step = point_step_ms(first, last)
    counted = Counter[int]()
    for entry in unpacked:
        counted[entry.publish_ms - entry.publish_ms % step] += len(entry.messages)
    assert [at for at, _ in rate] == list(range(first - first % step, last + 1, step))
    for at, per_second in rate:
        assert per_second * step / 1000 == pytest.approx(counted[at])


@settings(max_examples=50)
@given(TOPICS)
def test_points_that_lie_only_partly_in_the_time_of_the_messages_are_marked(
    parts: list[bytes],
) -> None:
    profile = result(parts)
    times = [unpack_entry(part).publish_ms for part in parts]
    step = point_step_ms(min(times), max(times))
    starts = [at for at, _ in points(profile, "rate")]
    whole = [at for at in starts if min(times) <= at and at + step - 1 <= max(times)]
    for series in profile["series"][:2]:
        assert series["partial"] == [at for at in starts if at not in whole]


@settings(max_examples=50)
@given(TOPICS, st.integers(1, 4), st.integers(1, 3), st.integers(), st.data())
def test_the_order_and_place_in_which_cells_are_put_together_change_nothing(
    parts: list[bytes], limit: int, shuffled: int, seed: int, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(parts)), max_size=4)))
    bounds = list(zip([0, *cuts], [*cuts, len(parts)], strict=True))
    tables = [cells_of(parts[start:stop]) for start, stop in bounds]
    random.Random(seed).shuffle(tables)
    if data.draw(st.booleans()) and len(tables) > 2:
        tables = [compact(tables[:2]), compact(tables[2:])]
    assert result(parts, limit, by_spark(tables, shuffled, limit)) == result(parts, limit)


def chunks(whole: bytes, count: int) -> list[bytes]:
    size = -(-len(whole) // count)
    return [
        pack_entry(
            [Message(whole[i * size : (i + 1) * size], key="k")],
            producer_name="p",
            publish_ms=BEGIN_MS,
            extra={
                **{"uuid": "u", "num_chunks_from_msg": count, "chunk_id": i},
                **{"total_chunk_msg_size": len(whole), "uncompressed_size": len(whole)},
            },
        )
        for i in range(count)
    ]


def test_a_message_in_chunks_is_one_message_of_its_whole_size() -> None:
    profile = result(chunks(b"x" * 900, 3))
    summary = facts(profile)
    assert (summary["messages"], summary["entries"], summary["chunked"]) == (1, 3, 1)
    assert summary["value_bytes"] == summary["size_max"] == summary["size_p50"] == 900
    assert rows(profile, "top_keys") == [["k", 1, 100.0, 900]]
    assert rows(profile, "compression") == [["NONE", 3, 1, 900, 900]]


def test_encrypted_messages_are_counted_and_their_sizes_are_not_guessed() -> None:
    keys = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"v")]}
    batch = [Message(b"secret")] * 5
    hidden = pack_entry(batch, producer_name="p", publish_ms=BEGIN_MS, extra=keys)
    plain = pack_entry([Message(b"four")], producer_name="p", publish_ms=BEGIN_MS)
    summary = facts(result([hidden, plain]))
    assert (summary["messages"], summary["encrypted"], summary["entries"]) == (6, 5, 2)
    assert (summary["value_bytes"], summary["size_mean"], summary["size_max"]) == (4, 4.0, 4)
    alone = facts(result([hidden]))
    assert [alone[key] for key in ("size_mean", "size_p50", "size_p99", "size_max")] == [None] * 4


@settings(max_examples=50)
@given(TOPICS, st.randoms())
def test_messages_of_all_kinds_beside_each_other_count_once(
    parts: list[bytes], chance: random.Random
) -> None:
    keys = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"v")]}
    hidden = [Message(b"secret", key="a")] * 5
    entry = pack_entry(hidden, producer_name="p", publish_ms=BEGIN_MS, extra=keys)
    mixed = [*parts, *chunks(b"x" * 900, 3), entry, b""]
    chance.shuffle(mixed)
    profile = result(mixed)
    messages = [message for part in parts for message in unpack_entry(part).messages]
    expected = Counter(message.key for message in messages if message.key is not None)
    expected["k"] += 1
    assert {row[0]: row[1] for row in rows(profile, "top_keys")} == expected
    assert sum(count for _, count in points(profile, "sizes")) == len(messages) + 1
    assert facts(profile)["messages"] == len(messages) + 6
    assert facts(profile)["value_bytes"] == sum(len(m.value or b"") for m in messages) + 900


def test_markers_and_entries_that_cannot_be_read_are_counted_as_such() -> None:
    good = pack_entry([Message(b"four")], producer_name="p", publish_ms=BEGIN_MS)
    marker = pack_entry(
        [Message(b"")], producer_name="", publish_ms=BEGIN_MS + 9999, extra={"marker_type": 10}
    )
    summary = facts(result([good, marker, good[:-1], b""]))
    assert (summary["messages"], summary["entries"]) == (1, 4)
    assert (summary["markers"], summary["unreadable"]) == (1, 2)
    assert summary["stored_bytes"] == 2 * len(good) - 1 + len(marker)
    assert summary["first_publish"] == summary["last_publish"] == BEGIN_MS
    assert not {"markers", "unreadable", "encrypted", "chunked"} & facts(result([good])).keys()


def test_a_topic_without_a_readable_message_has_no_figures() -> None:
    profile = result([b"", b""])
    summary = facts(profile)
    assert (summary["messages"], summary["unreadable"]) == (0, 2)
    for key in ("first_publish", "rate_mean", "size_mean", "size_max", "key_share", "key_skew"):
        assert summary[key] is None
    assert [series["points"] for series in profile["series"]] == [[]] * 5


def plain(keys: Sequence[str | None], per_entry: int = 1, size: int = 100, codec: int = 0) -> Any:
    """Return the result of a message for each key, in batches of ``per_entry``."""
    parts = [
        pack_entry(
            [Message(b"v" * size, key=key) for key in keys[i : i + per_entry]],
            producer_name="p",
            publish_ms=BEGIN_MS + i,
            batched=per_entry > 1,
            compression=codec,
        )
        for i in range(0, len(keys), per_entry)
    ]
    return result(parts)


def test_a_result_begins_with_what_it_means() -> None:
    even = plain([f"k{i % 50}" for i in range(100)])["conclusions"]
    assert even[0] == "Keys are even: the busiest of 50 has 2 % of the messages."
    assert re.fullmatch(
        r"Not batched: 1 message per entry; (\d+) of (1\d\d) stored bytes per message are overhead\.",
        even[1],
    )
    assert even[2] == "Not compressed."
    skewed = plain(["a"] * 90 + [f"k{i}" for i in range(10)], per_entry=10, codec=1)["conclusions"]
    assert skewed[0] == (
        "Keys are uneven: the busiest of 11 has 90 % of the messages, 9.9 times the average."
    )
    assert skewed[1] == "Batched: 10 messages per entry."
    assert re.fullmatch(r"Compressed: \d+ bytes become 1\.", skewed[2])
    assert plain([None])["conclusions"][0] == "No message has a key."
    assert plain(["a", "a"])["conclusions"][0] == "All keyed messages have the same key."
    assert result([b""])["conclusions"] == []


def test_equal_keys_are_in_the_order_that_people_count_in() -> None:
    profile = plain([str(i) for i in range(30)])
    assert [row[0] for row in rows(profile, "top_keys")] == [str(i) for i in range(20)]


@given(st.lists(st.integers(0, 2**53 - 1), min_size=1))
def test_sizes_are_kept_exactly_below_1024_and_by_a_512th_above(sizes: list[int]) -> None:
    for size, floor in zip(sizes, counting.size_floor(np.array(sizes)).tolist(), strict=True):
        assert floor <= size <= counting.size_ceiling(floor) <= max(floor * (1 + 2**-9), 1023)
        if size < 1024:
            assert floor == size == counting.size_ceiling(floor)


def test_delays_are_those_from_event_to_publishing_and_from_there_to_the_broker() -> None:
    def entry(event_ms: int, broker_ms: int) -> bytes:
        packed = pack_entry(
            [Message(b"v", event_ms=BEGIN_MS - event_ms)], producer_name="p", publish_ms=BEGIN_MS
        )
        broker = pb.BrokerEntryMetadata(broker_timestamp=BEGIN_MS + broker_ms).SerializeToString()
        return b"\x0e\x02" + len(broker).to_bytes(4, "big") + broker + packed

    profile = result([entry(i, i // 10) for i in range(1, 101)] + [entry(-5, -7)])
    summary = facts(profile)
    assert (summary["before_p50"], summary["before_p99"], summary["before_early"]) == (50, 99, 1)
    assert (summary["arrival_p50"], summary["arrival_p99"], summary["arrival_early"]) == (5, 9, 1)
    assert profile["conclusions"][3:] == [
        "Half of the events are published within 50 ms, 99 % within 99 ms. 1 have negative times: clocks differ.",
        "Half of the messages reach their broker within 5 ms, 99 % within 9 ms. 1 have negative times: clocks differ.",
    ]
    assert "before_p50" not in facts(plain(["k"]))


def test_few_hot_keys_have_half_of_the_messages() -> None:
    assert facts(plain(["hot"] * 60 + [f"k{i}" for i in range(40)]))["keys_of_half"] == 1
    assert facts(plain([f"k{i}" for i in range(40)]))["keys_of_half"] == 20
    assert facts(plain([None]))["keys_of_half"] is None
