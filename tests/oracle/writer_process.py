"""A ledger writer of ours as a process that is there to be killed: ``python -m tests.oracle.writer_process ZK SIZE``.

Prints the ledger's id, then after each confirmation how many entries are confirmed; never ends by itself.
"""

import asyncio
import sys

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.net.network import LoopNetwork
from tests.oracle.ledgers_java import payload
from tests.oracle.servers import connected
from tests.support.ledger_cluster import run_of

AHEAD = 500


class Confirmed:
    """A listener that prints confirmations and lets the writer continue."""

    def __init__(self) -> None:
        self.below = 0
        self.changed = asyncio.Event()

    def confirmed(self, below: int) -> None:
        self.below = below
        print(below, flush=True)
        self.changed.set()

    def failed(self, error: LedgerError) -> None:
        raise error


async def write(zk: str, size: int) -> None:
    """Append until killed, with at most AHEAD unconfirmed entries."""
    client = LedgerClient(
        store=await connected(zk),
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
    )
    listener = Confirmed()
    writer = await client.create(3, 3, 2, listener=listener)
    print(writer.ledger_id, flush=True)
    following = 0
    while True:
        run: Slice = run_of(*(payload(e, size) for e in range(following, following + 50)))
        writer.append(run)
        following += 50
        while following - listener.below > AHEAD:
            listener.changed.clear()
            await listener.changed.wait()
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], int(sys.argv[2])))
