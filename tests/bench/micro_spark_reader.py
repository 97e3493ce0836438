"""CPU of opening stored entries for an analysis, per message: unbatched and batched ones, the columns of a profile.

Run: python -m tests.bench.micro_spark_reader
"""

import time

from engine.base.slices import Slice
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.compression import LZ4, NONE, ZSTD
from spark_jobs.pulsar_source.columns import MESSAGES, EntryColumns

MESSAGES_MAX = 200_000
VALUE = b"0123456789" * 20
PROFILE = ("key", "value_bytes")
OF_SCHEMAS = {"schema_version", "key_bytes"}
EVERYTHING = tuple(name for name in MESSAGES.names if name not in OF_SCHEMAS)


def run_of(count: int, batch: int, codec: int) -> Slice:
    """``count`` messages of 200 B with one of 100 keys, ``batch`` in an entry."""
    entries = [
        pack_entry(
            [Message(VALUE, key=f"key-{(first + i) % 100}") for i in range(batch)],
            producer_name="standalone-0-12",
            publish_ms=1_700_000_000_000 + first,
            batched=batch > 1,
            compression=codec,
        )
        for first in range(0, count, batch)
    ]
    spans, at = [], 0
    for entry in entries:
        spans += [at, at + len(entry)]
        at += len(entry)
    return Slice(b"".join(entries), spans, at, ledger_id=1, first=0)


def opened(run: Slice, wanted: tuple[str, ...]) -> int:
    columns = EntryColumns(wanted)
    full = sum(batch.messages.num_rows for batch in columns.add(run))
    return full + columns.take().messages.num_rows


def unpacked(run: Slice) -> int:
    return sum(len(unpack_entry(run.entry(i)).messages) for i in range(run.count))


def main() -> None:
    opened(run_of(1, 1, NONE), EVERYTHING)  # pyarrow loads pandas at its first array
    for title, batch, codec in (
        ("unbatched", 1, NONE),
        ("batched by 100", 100, NONE),
        ("batched, LZ4", 100, LZ4),
        ("batched, ZSTD", 100, ZSTD),
    ):
        run = run_of(MESSAGES_MAX, batch, codec)
        for what, work in (
            ("unpack_entry", lambda run=run: unpacked(run)),
            ("profile", lambda run=run: opened(run, PROFILE)),
            ("all columns", lambda run=run: opened(run, EVERYTHING)),
            ("those of schemas", lambda run=run: opened(run, ("value", *OF_SCHEMAS))),
        ):
            cpu = time.process_time()
            assert work() == MESSAGES_MAX
            cpu = time.process_time() - cpu
            print(f"{title:15} {what:16} {cpu / MESSAGES_MAX * 1e6:6.2f} us CPU per message")


if __name__ == "__main__":
    main()
