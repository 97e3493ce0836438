"""Cost of consuming: ``python -m tests.bench.consume``, with the options and the table of ``tests.bench.run``."""

from tests.bench import loads
from tests.bench.consume import acks, compaction, fans, many
from tests.bench.run import Work, compare


def works(scale: float) -> dict[str, Work]:
    """Name to work; ``scale`` 1 makes each take seconds."""

    def n(count: int) -> int:
        return max(int(count * scale), 500)

    return {
        "Shared, 20 consumers, an ack each": lambda c: fans.shared(c, n(40_000), 20, 1),
        "Shared, 20 consumers, acks of 100": lambda c: fans.shared(c, n(40_000), 20, 100),
        "Key_Shared, 8 consumers, 10,000 keys": lambda c: fans.key_shared(c, n(40_000), 8, 10_000),
        "delayed by 10 to 20 s": lambda c: fans.delayed(c, n(100_000)),
        "Failover, 4 consumers": lambda c: fans.failover(c, n(40_000), 4),
        "fan-out 1 to 20": lambda c: fans.fan_out(c, n(20_000), 20),
        "1,000 idle subscriptions, 10 busy": lambda c: many.subscriptions(c, n(10_000), 1_000, 10),
        "100 topics, published and consumed": lambda c: many.topics(c, n(50_000), 100),
        "acks in random order, one a command": lambda c: acks.at_random(c, n(100_000), 1),
        "acks in random order, 1,000 a command": lambda c: acks.at_random(c, n(100_000), 1_000),
        "compaction of 1,000,000 entries, 100,000 keys": lambda c: compaction.compacted(
            c, n(1_000_000), n(100_000)
        ),
        "redelivery after a nack of all": lambda c: acks.redelivered(c, n(40_000)),
        "end to end, 2,000/s, 1 KB": lambda c: loads.steady(c, 1024, 2_000, max(int(5 * scale), 2)),
        "catch-up 1 KB": lambda c: loads.consume(c, 1024, n(120_000)),
        "catch-up 1 KB in batches of 100": lambda c: fans.catch_up(c, n(10_000), 100),
    }


if __name__ == "__main__":
    compare(works, __doc__)
