"""Microseconds per entry of each kernel, best of five: `python -m tests.bench.micro_kernels`. Asserts no time."""

import hashlib
import time
import timeit
from collections.abc import Callable

from engine.base.ids import Position
from engine.wire import bookie_commands, client_commands
from engine.wire.batches import Message, pack_entry
from engine.wire.kernels import (
    batch_sizes,
    build_add_replies,
    build_adds,
    build_messages,
    build_receipts,
    take_acks,
    take_add_replies,
    take_adds,
    take_read_replies,
    take_sends,
)

SHAPES = ((100, 1), (100, 4), (100, 256), (1024, 256), (65_536, 4))
FRAME_MAX = 6 << 20
KEY = hashlib.sha1(b"ledger").digest()
LEDGER, FIRST, PRODUCER, SEQUENCE = 5, 20_000, 7, 300_000
PUBLISH = ("take_sends", "build_adds", "take_adds", "add_replies", "take_replies", "receipts")


def kernels(size: int, count: int) -> dict[str, Callable[[], object]]:
    """Measure each kernel over a run of ``count`` entries whose payload is ``size`` bytes."""
    entry = pack_entry(
        [Message(bytes(size))], producer_name="raw-12345-0", publish_ms=1_700_000_000_000
    )
    sends = b"".join(client_commands.send(PRODUCER, SEQUENCE + i, entry) for i in range(count))
    run = take_sends(sends, 0, len(sends), FRAME_MAX)[2]
    assert run is not None
    assert run.count == count
    run.ledger_id, run.first = LEDGER, FIRST
    adds = b"".join(build_adds(run, 0, count, LEDGER, FIRST, FIRST - 1, 0, KEY, 0)[0])
    (cut,) = take_adds(adds, 0, len(adds), FRAME_MAX)[2]
    replies = build_add_replies(adds, cut, 0)
    reads = b"".join(bookie_commands.read_reply(0, LEDGER, FIRST + i, entry) for i in range(count))
    acks = b"".join(client_commands.ack(1, [Position(LEDGER, FIRST + i)]) for i in range(count))
    return {
        "take_sends": lambda: take_sends(sends, 0, len(sends), FRAME_MAX),
        "build_adds": lambda: build_adds(run, 0, count, LEDGER, FIRST, FIRST - 1, 0, KEY, 0),
        "take_adds": lambda: take_adds(adds, 0, len(adds), FRAME_MAX),
        "add_replies": lambda: build_add_replies(adds, cut, 0),
        "take_replies": lambda: take_add_replies(replies, 0, len(replies)),
        "receipts": lambda: build_receipts(LEDGER, FIRST, run.heads, 0, count),
        "messages": lambda: build_messages(9, run, range(count)),
        "take_acks": lambda: take_acks(acks, 0, len(acks)),
        "take_reads": lambda: take_read_replies(reads, 0, len(reads)),
        "batch_sizes": lambda: batch_sizes(sends, run.spans),
    }


def main() -> None:
    for size, count in SHAPES:
        repeat = max(20, 20_000 // count)
        times = {
            name: min(timeit.repeat(kernel, timer=time.process_time, number=repeat, repeat=5))
            / repeat
            / count
            * 1e6
            for name, kernel in kernels(size, count).items()
        }
        shown = "  ".join(f"{name} {us:.2f}" for name, us in times.items())
        total = sum(times[name] for name in PUBLISH)
        print(f"{size:6} B x {count:3}: {shown}  | publish sum {total:.2f} us", flush=True)


if __name__ == "__main__":
    main()
