"""Messages in chunks as the latest value of their keys: joined wherever pages end, or said not to be."""

import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.wire.batches import Message, pack_entry
from engine.wire.compression import compress
from gateway.services.browsing import chunks, latest_values, parts
from gateway.services.browsing.chunks import FAR, LARGE, ChunkJoiner
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage, Kind, open_entry
from tests.support.admin.bench import AdminBench
from tests.unit.gateway.services.browsing.test_latest_values import (
    PLAIN,
    Publisher,
    folded,
    page,
    values_of,
)

LZ4 = 1


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await made.admin.call(CREATE_TOPIC, CreateTopic(PLAIN))
    yield made
    await made.close()


def chunked(
    uuid: str, value: bytes, count: int, key: str | None, *, codec: int = 0, at_ms: int = 1
) -> list[bytes]:
    """Return the entries of a message in ``count`` chunks, as a client sends them."""
    packed = compress(codec, value)
    size = -(-len(packed) // count)
    pieces = [packed[start : start + size] for start in range(0, size * count, size)]
    entries = []
    for number, piece in enumerate(pieces):
        extra: dict[str, Any] = {
            "uuid": uuid,
            "chunk_id": number,
            "num_chunks_from_msg": count,
            "total_chunk_msg_size": len(packed),
            "compression": codec,
            "uncompressed_size": len(value),
        }
        if key is not None:
            extra["partition_key"] = key
        entries.append(
            pack_entry([Message(piece)], producer_name="p", publish_ms=at_ms, extra=extra)
        )
    return entries


def opened(entries: Sequence[bytes]) -> list[BrowsedMessage]:
    return [
        message for number, entry in enumerate(entries) for message in open_entry(5, number, entry)
    ]


async def append(bench: AdminBench, entries: Sequence[bytes]) -> None:
    await Publisher(bench).store(PLAIN, *entries)


def test_chunks_are_joined_at_the_last_one_as_clients_do() -> None:
    joiner = ChunkJoiner(from_beginning=True)
    value = b"long value " * 40
    first, second, third = opened(chunked("m", value, 3, "k", codec=LZ4))
    assert first.kind is Kind.CHUNK
    kinds = [joiner.add(chunk).kind for chunk in (first, second, second, first, second)]
    assert kinds == [Kind.CHUNK] * 5
    whole = joiner.add(third)
    assert whole.message is not None
    assert (whole.kind, whole.message.value, whole.id) == (Kind.MESSAGE, value, "5:2")
    assert whole.message.key == "k"
    sizes = [chunk.entry_bytes or 0 for chunk in (first, second, third)]
    assert whole.entry_bytes == sum(sizes)
    assert joiner.add(third).problem == chunks.REPEATED


@pytest.mark.parametrize("kept", [[1, 2], [0, 2], [2]])
def test_a_message_that_lacks_a_chunk_says_so(kept: list[int]) -> None:
    all_chunks = opened(chunked("m", b"abcdef", 3, "k"))
    joiner = ChunkJoiner(from_beginning=True)
    last = [joiner.add(all_chunks[number]) for number in kept][-1]
    assert (last.kind, last.problem) == (Kind.CHUNK, chunks.INCOMPLETE)
    later = ChunkJoiner(from_beginning=False)
    last = [later.add(all_chunks[number]) for number in kept][-1]
    expected = chunks.INCOMPLETE if 0 in kept else FAR
    assert last.problem == expected, "what was not read is not said to be missing"


def test_kept_chunks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BYTES_MAX", 100)
    joiner = ChunkJoiner(from_beginning=True)
    large = [joiner.add(chunk) for chunk in opened(chunked("l", b"x" * 150, 3, "k"))]
    assert large[-1].problem == LARGE
    monkeypatch.setattr(chunks, "INCOMPLETE_MAX", 2)
    begun = [opened(chunked(f"m{number}", b"ab", 2, "k")) for number in range(3)]
    for first, _ in begun:
        joiner.add(first)
    problems = [joiner.add(last).problem for _, last in begun]
    assert problems == [FAR, "", ""]
    assert joiner._size == 0


def test_chunks_that_do_not_decompress_say_so() -> None:
    entries = chunked("m", b"value " * 50, 2, "k", codec=LZ4)
    other = chunked("m", b"\xff" * 300, 2, "k")
    first, last = opened([other[0], entries[1]])
    joiner = ChunkJoiner(from_beginning=True)
    joiner.add(first)
    assert "cannot be joined" in joiner.add(last).problem


@pytest.mark.parametrize("limit", [1, 2, 1_000])
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_pages_have_whole_values_wherever_they_end(
    bench: AdminBench, seed: int, compacted: bool, limit: int
) -> None:
    chance = random.Random(seed)
    expected: dict[str, bytes] = {}
    streams: list[list[tuple[str, bytes, bytes | None]]] = []
    # Four producers publish messages at a time: chunks of one are between those of others.
    for producer in range(4):
        stream: list[tuple[str, bytes, bytes | None]] = []
        for number in range(5):
            key = f"k{chance.randrange(5)}"
            value = b"%d/%d " % (producer, number) * chance.randrange(1, 30)
            count = chance.choice([1, 2, 3, 6])
            if count == 1:
                entry = pack_entry([Message(value, key=key)], producer_name="p", publish_ms=1)
                stream.append((key, entry, value))
                continue
            codec = chance.choice([0, LZ4])
            entries = chunked(f"{producer}-{number}", value, count, key, codec=codec)
            lost = chance.randrange(count) if chance.random() < 0.2 else -1
            for index, entry in enumerate(entries):
                if index != lost:
                    is_whole = index + 1 == count and lost < 0
                    stream.append((key, entry, value if is_whole else None))
        streams.append(stream)
    stored = []
    while any(streams):
        key, entry, value = chance.choice([stream for stream in streams if stream]).pop(0)
        stored.append(entry)
        if value is not None:
            expected.pop(key, None)
            expected[key] = value
    middle = len(stored) // 2
    await append(bench, stored[:middle])
    if compacted:
        await Publisher(bench).compact(PLAIN)
    await append(bench, stored[middle:])
    assert await folded(bench, PLAIN, limit) == expected
    some = next(iter(expected))
    wanted = MessageFilter(key=some)
    assert await folded(bench, PLAIN, limit, wanted) == {some: expected[some]}


async def test_a_page_that_ends_at_its_bytes_reads_chunks_again_and_goes_on(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "BYTES_MAX", 3_000)
    monkeypatch.setattr(parts, "PAGE_BYTES_MIN", 1_000)
    monkeypatch.setattr(parts, "PAGE_BYTES_MAX", 1_000)
    value = bytes(range(256)) * 40
    begun = chunked("never", b"x" * 4_000, 8, "n")[:2]
    await append(bench, [*begun, *chunked("m", value, 10, "k")])
    read = await page(bench, PLAIN)
    assert read.stopped == "bytes"
    assert await folded(bench, PLAIN, 1_000) == {"k": value}


async def test_a_value_that_is_not_joined_is_shown_with_the_reason(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (chunks, latest_values):
        monkeypatch.setattr(module, "BYTES_MAX", 1_000)
    await append(bench, chunked("m", b"x" * 2_000, 4, "k"))
    read = await page(bench, PLAIN)
    ((_, row),) = read.rows
    assert (row.kind, row.problem) == (Kind.CHUNK, LARGE)
    assert values_of(read) == {"k": b"x" * 500}


async def test_a_message_that_lacks_a_chunk_does_not_replace_the_value_before(
    bench: AdminBench,
) -> None:
    first = chunked("a", b"whole", 2, "k")
    second = chunked("b", b"broken", 3, "k")
    await append(bench, [*first, second[0], second[2]])
    read = await page(bench, PLAIN)
    assert values_of(read) == {"k": b"whole"}
    assert (read.fold.undecoded, read.fold.incomplete) == (3, 1)
