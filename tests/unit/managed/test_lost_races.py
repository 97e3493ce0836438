"""Another owner, or a store without an answer, between the reading and the writing of a node (I37, I39)."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.managed.stored.node import StoredNode
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import StoreUnavailableError
from tests.support.managed_cluster import NAME, Brokers, drain, numbered, publish, rolling
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

PATH = "/managed-ledgers/t"


class Raced:
    """A store in which another owner writes just before the first put arrives."""

    def __init__(self, store: MemoryStore) -> None:
        self.get = store.get
        self._store = store
        self._raced = False

    async def put(self, path: str, value: bytes, version: int = -1) -> int:
        if not self._raced:
            self._raced = True
            await self._store.put(path, b"theirs")
        return await self._store.put(path, value, version)


def node_in(store: Any, attempts_max: int = 5) -> StoredNode:
    settings = ManagedSettings(retry_initial_s=0.01, metadata_attempts_max=attempts_max)
    return StoredNode(store, PATH, RandomEntropy(), settings)


async def test_i39_a_change_between_read_and_write_is_not_overwritten() -> None:
    store = MemoryServer().session()
    await store.create(PATH, b"", make_parents=True)
    node = node_in(Raced(store))
    await node.read()
    with pytest.raises(ManagedLedgerFencedError):
        await node.write(b"ours")
    assert (await store.get(PATH))[0] == b"theirs"


@pytest.mark.parametrize("done", [False, True])
async def test_i39_anothers_write_after_one_without_an_answer_is_not_ours(done: bool) -> None:
    store = MemoryServer().session()
    await store.create(PATH, b"", make_parents=True)
    failing = FailingStore(store, lambda operation, _path: operation == "put")
    node = node_in(failing, attempts_max=1)
    await node.read()
    failing.fail_at(1, lost_answer=done)
    with pytest.raises(StoreUnavailableError):
        await node.write(b"ours")
    await store.put(PATH, b"theirs")
    with pytest.raises(ManagedLedgerFencedError):
        await node.write(b"ours again")
    assert (await store.get(PATH))[0] == b"theirs"


async def test_i37_nothing_is_deleted_while_the_list_could_not_be_stored(brokers: Brokers) -> None:
    server = brokers.cluster.server
    ledger = await brokers.broker().open(NAME, rolling(2))
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    places = (await publish(ledger, 0, 6)).positions

    def unable(_session: int, operation: str, path: str) -> Fault | None:
        lost = operation == "put" and path == paths.managed_ledger(NAME)
        return Fault(lose_request=True) if lost else None

    server.on_call = unable
    cursor.acknowledge_cumulative(Position(*places[-1]))
    await cursor.persisted()
    for _ in range(2):
        with suppress(StoreUnavailableError):  # by itself it has tried before
            await ledger.trim()
        await ledger._list.sweep()
    server.on_call = None
    listed = LogRecord.decode(server.tree.get(paths.managed_ledger(NAME))[0]).ledgers
    assert len(listed) > 2
    for span in listed:
        server.tree.get(paths.ledger(span.ledger_id))


async def test_i39_a_late_list_write_of_the_former_owner_does_not_change_the_list(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold the write of a roll while another broker opens the topic, closes its ledger and continues."""
    ledger = await brokers.broker().open(NAME, rolling(2))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    real, held, goes = StoredNode.write, asyncio.Event(), asyncio.Event()

    async def write(node: StoredNode, value: bytes) -> None:
        if node is ledger._node:
            held.set()
            await goes.wait()
        await real(node, value)

    monkeypatch.setattr(StoredNode, "write", write)
    await publish(ledger, 0, 2)
    await held.wait()
    other = await brokers.broker().open(NAME, rolling(2))
    await publish(other, 2, 3)
    await other.writable()
    listed = brokers.cluster.server.tree.get(paths.managed_ledger(NAME))[0]
    goes.set()
    with pytest.raises(ManagedLedgerFencedError):
        await ledger.writable()
    assert brokers.cluster.server.tree.get(paths.managed_ledger(NAME))[0] == listed
    assert [span.entries for span in LogRecord.decode(listed).ledgers[:2]] == [2, 2]
    assert await drain(other.cursors["s"]) == numbered(0, 5)
