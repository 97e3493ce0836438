"""Cells of entries that are given as bytes: what one task returns."""

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from engine.base.slices import Slice
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from spark_jobs.jobs.kit.cells import Gathered
from spark_jobs.pulsar_source.columns import EntryColumns, Opened

BEGIN_MS = 1_700_000_000_000
HIDDEN = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"v")]}
"""Metadata of an encrypted entry."""


def run_of(parts: Sequence[bytes], first: int = 0) -> Slice:
    spans, at = [], 0
    for part in parts:
        spans += [at, at + len(part)]
        at += len(part)
    return Slice(b"".join(parts), spans, at, ledger_id=1, first=first)


def opened_of(parts: Sequence[bytes], columns: Collection[str], first: int = 0) -> list[Opened]:
    filling = EntryColumns(columns)
    return [*filling.add(run_of(parts, first)), filling.take()]


def cells_of_parts(
    parts: Sequence[bytes], columns: Collection[str], cells_of: Callable[[Opened], pa.Table]
) -> pa.Table:
    gathered = Gathered()
    for opened in opened_of(parts, columns):
        gathered.add(cells_of(opened))
    return gathered.take()


def single(value: bytes | None, at_ms: int = 0, producer: str = "p", **fields: object) -> bytes:
    """Return an entry with one message that is not a batch."""
    extra = fields.pop("extra", None)
    return pack_entry(
        [Message(value, **fields)],  # type: ignore[arg-type]
        producer_name=producer,
        publish_ms=BEGIN_MS + at_ms,
        extra=extra,  # type: ignore[arg-type]
    )


def chunks(whole: bytes, count: int, key: str | None = None) -> list[bytes]:
    """Return the entries of one message in chunks."""
    size = -(-len(whole) // count)
    return [
        single(
            whole[i * size : (i + 1) * size],
            key=key,
            extra={
                **{"uuid": "u", "num_chunks_from_msg": count, "chunk_id": i},
                **{"total_chunk_msg_size": len(whole), "uncompressed_size": len(whole)},
            },
        )
        for i in range(count)
    ]


HOSTILE = [
    b"",
    b"\x00" * 40,
    single(None),
    single(b"\xff\xfe\x00"),
    single(b'{"id": ' + b"[" * 100_000),
    single(b'{"a":' * 300 + b"1" + b"}" * 300),
    single(b'{"id": 1, "name": '),
    single(b'{"\\ud800": NaN, "n": ' + b"9" * 5000 + b"}"),
    single(b'{"blob": "' + b"a" * 5_000_000 + b'"}'),
    single(b"secret", key="k", extra=HIDDEN),
    pack_entry([Message(b"secret")] * 3, producer_name="p", publish_ms=BEGIN_MS, extra=HIDDEN),
    *chunks(b"x" * 900, 3),
    single(b"", extra={"marker_type": 10}),
]
"""Entries that break careless readers."""
