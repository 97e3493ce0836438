"""Cost of enabled transactions to a topic without any: ``python -m tests.bench.transactions.plain``.

Two of our instances, one with transactions enabled, publish and consume the same entries in slices by turns. Each round
has new instances: two processes of the same program differ by some per cent as long as they run.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench import raw
from tests.bench.contenders import Contender, ours
from tests.bench.loads import WINDOW, counts_of, new_topic

SLICES = 10
SETTLES_S = 0.3
"""Pause behind each slice: work in the background counts for it."""
ENABLED = {"MAGNETAR_TRANSACTION_COORDINATOR_ENABLED": "true"}


async def _slice(contender: Contender, size: int, count: int) -> float:
    """Publish and consume ``count`` entries of ``size`` bytes on a new topic; return the CPU µs per entry."""
    topic = new_topic("plain")
    reading = await raw.connect(contender.url, topic)
    await raw.subscribe(reading, topic, "s")
    link = await raw.connect(contender.url, topic)
    await raw.open_producer(link, topic)
    payload = raw.payload_of(size)
    warm = raw.blocks(payload, 1000)
    await raw.publish(link, warm, counts_of(warm, payload, 1000), WINDOW)
    frames = raw.blocks(payload, count, first=1000)
    counts = counts_of(frames, payload, count)
    await reading.until(lambda: reading.messages_seen >= 1000)
    await asyncio.sleep(SETTLES_S)
    cpu = contender.cpu_s()
    await raw.publish(link, frames, counts, WINDOW)
    await reading.until(lambda: reading.messages_seen >= count + 1000)
    await asyncio.sleep(SETTLES_S)
    cpu = contender.cpu_s() - cpu
    link.close()
    reading.close()
    return cpu / count * 1e6


def compared(size: int, count: int) -> tuple[float, float]:
    """Return the median CPU µs per entry with transactions disabled and enabled, of one pair of instances."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        sides = [
            stack.enter_context(ours(Path(folder), "disabled")),
            stack.enter_context(ours(Path(folder), "enabled", **ENABLED)),
        ]
        used: list[list[float]] = [[], []]
        for turn in range(-1, SLICES):  # the first warms all up
            for number in (0, 1)[:: 1 if turn % 2 else -1]:
                spent = asyncio.run(_slice(sides[number], size, count))
                if turn >= 0:
                    used[number].append(spent)
    return statistics.median(used[0]), statistics.median(used[1])


def main() -> None:
    """Print the figures of each round, and the median of their ratios with its range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100, help="bytes of an entry")
    parser.add_argument("--count", type=int, default=20_000, help="entries of a slice")
    args = parser.parse_args()
    ratios = []
    for number in range(args.rounds):
        disabled, enabled = compared(args.size, args.count)
        ratios.append(enabled / disabled)
        print(
            f"round {number + 1}: disabled {disabled:.2f} µs, enabled {enabled:.2f} µs, ratio {ratios[-1]:.3f}",
            flush=True,
        )
    print(
        f"enabled to disabled {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), "
        f"load average {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
