"""CPU of dispatch alone, in one process: appended slices through a subscription to consumers that acknowledge.

.venv/bin/python -m tests.bench.micro_dispatch [--kind Shared] [--consumers 20] [--acks 1]
"""

import argparse
import asyncio
import time
from itertools import count

from engine.base.ids import Position
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.settings import DataPathSettings
from engine.wire.batches import Message, pack_entry
from tests.support.broker_bench import Client
from tests.support.shelf import Reading

SLICE = 60
PERMITS = 1000


class Sink(Client):
    """Counts what it is sent, by parsing nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.can_send = True

    def send(self, data: bytes) -> None:
        pass

    def send_parts(self, parts: list[bytes | memoryview]) -> None:
        pass


async def measure(kind: SubscriptionType, consumers: int, acks: int, keys: int) -> float:
    """µs per entry."""
    reading = Reading(DataPathSettings(), 64 << 20, ledger_entries=1 << 30)
    joined = [await reading.join(Sink(), 1 << 30, kind) for _ in range(consumers)]
    numbers = count()

    def entries() -> list[bytes]:
        return [
            pack_entry(
                [Message(b"x" * 1024, key=f"key-{next(numbers) % keys}")],
                producer_name="p",
                publish_ms=1_700_000_000_000,
            )
            for _ in range(SLICE)
        ]

    made = [entries() for _ in range(400)]
    subscription, spent, done = reading.subscription, 0.0, 0
    for run in made:
        positions = reading.shelf.append(run, [1] * SLICE)
        began = time.process_time()
        subscription.dispatch.wake()
        for consumer in joined:
            out = _held(consumer)
            for i in range(0, len(out), acks):
                subscription.acknowledge(consumer, out[i : i + acks])
        spent += time.process_time() - began
        done += len(positions)
    assert reading.cursor.backlog_entries() == (0 if joined[0].pending is not None else done)
    return spent / done * 1e6


def _held(consumer: Consumer) -> list[Position]:
    return list(consumer.pending or ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="Shared")
    parser.add_argument("--consumers", type=int, default=20)
    parser.add_argument("--acks", type=int, default=1, help="positions in one acknowledgement")
    parser.add_argument("--keys", type=int, default=10_000)
    args = parser.parse_args()
    kind = next(known for known in SubscriptionType if known.title == args.kind)
    for _ in range(3):
        took = asyncio.run(measure(kind, args.consumers, args.acks, args.keys))
        print(f"{args.kind}, {args.consumers} consumers: {took:.2f} µs per entry")


if __name__ == "__main__":
    main()
