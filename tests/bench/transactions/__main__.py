"""Cost of transactions: ``python -m tests.bench.transactions``; options and table are those of ``tests.bench.run``."""

from functools import partial

from tests.bench.run import Work, compare
from tests.bench.transactions import rates


def works(scale: float) -> dict[str, Work]:
    """Return works by name; ``scale`` 1 makes each take seconds."""

    def n(count: int, least: int = 500) -> int:
        return max(int(count * scale), least)

    made: dict[str, Work] = {
        "publish 100 B, in a transaction and without": lambda c: rates.publish(c, 100, n(150_000)),
        "publish 1 KB, in a transaction and without": lambda c: rates.publish(c, 1024, n(80_000)),
        "acknowledge, in transactions of 100 and without": lambda c: rates.acknowledge(
            c, n(20_000)
        ),
    }
    for messages, count in ((1, 1_000), (10, 600), (100, 200)):
        for opened in (1, 8, 64):
            name = f"transactions of {messages}, {opened} open"
            total = n(count if opened > 1 else count // 4, opened)
            made[name] = partial(rates.ended, messages=messages, opened=opened, count=total)
    return made


if __name__ == "__main__":
    compare(works, __doc__, transactions=True)
