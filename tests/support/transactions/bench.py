"""Transactional messages of a bench's topic, and stand-ins for what is stored of transactions elsewhere."""

from collections.abc import Callable, Mapping
from typing import Any

from engine.base.ids import Position
from engine.base.names import NamespaceName
from engine.broker.errors import ServiceNotReady
from engine.broker.topics.publish import Publish
from engine.broker.transactions.txn_id import TxnId
from engine.metadata.records import Document
from engine.wire.client_commands import send
from engine.wire.kernels import take_sends
from tests.support.broker_bench import Bench, until
from tests.support.raw_client import entry_of


class KeptSnapshots:
    """Snapshots in memory. ``fails``: reads and writes are refused."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], Document] = {}
        self.writes = 0
        self.fails = False

    def _check(self) -> None:
        if self.fails:
            raise ServiceNotReady("snapshots cannot be reached")

    async def exist(self, namespace: NamespaceName) -> bool:
        return bool(self.values)

    async def read(
        self, namespace: NamespaceName, local: str, wanted: Callable[[str], bool]
    ) -> Mapping[str, Document]:
        self._check()
        return {
            key: value for (at, key), value in self.values.items() if at == local and wanted(key)
        }

    async def write(
        self, namespace: NamespaceName, local: str, key: str, value: Document | None
    ) -> Position:
        self._check()
        self.writes += 1
        if value is None:
            self.values.pop((local, key), None)
        else:
            self.values[local, key] = value
        return Position(1, self.writes)


def start(bench: Bench, txn: TxnId | None = None, count: int = 1, key: str = "") -> None:
    """Start to publish messages, each as a SEND of its own as clients send transactional ones."""
    if txn is not None:
        bench.topic.take_transactions()
    named: dict[str, Any] = {"partition_key": key} if key else {}
    if txn is not None:
        named |= {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
    for _ in range(count):
        data = send(1, bench._sent, entry_of(b"v", **named))
        _, _, run = take_sends(data, 0, len(data), 1 << 24)
        assert run is not None
        bench._sent += 1
        Publish(run, bench.producer, txn=txn).start()


async def put(bench: Bench, txn: TxnId | None = None, count: int = 1, key: str = "") -> None:
    """Publish messages as ``start`` does; return once they are stored."""
    start(bench, txn, count, key)
    await until(lambda: bench.publisher.receipts == bench._sent)


async def end(bench: Bench, txn: TxnId, *, commit: bool, mark: int = -1) -> None:
    """End a transaction in the topic, as its coordinator does."""
    assert bench.topic.transactions is not None
    await bench.topic.transactions.end(txn, commit=commit, low_water_mark=mark)
