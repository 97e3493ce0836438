"""Trees of znodes as values to compare, and the file of Apache's that ``tests/golden`` holds ours against."""

import json
import os
from pathlib import Path

from engine.managed.stored.records import OWN_PREFIX
from engine.metadata.store import MetadataStore
from engine.wire import mledger_pb2 as pb
from tests.oracle.servers import connected

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata" / "apache.json"


async def dump(zk: str, top: str) -> dict[str, bytes]:
    """Path and value of every znode from ``top`` on; empty when there is none."""
    store = await connected(zk)
    try:
        values: dict[str, bytes] = {}
        await _gather(store, top, values)
        return values
    finally:
        await store.close()


async def _gather(store: MetadataStore, path: str, values: dict[str, bytes]) -> None:
    if await store.exists(path) is None:
        return
    values[path], _ = await store.get(path)
    for child in sorted(await store.children(path)):
        await _gather(store, f"{path}/{child}", values)


def remember(values: dict[str, bytes]) -> None:
    """Add Apache's ``values`` to the golden file by name, when ORACLE_RECORD is in the environment."""
    if "ORACLE_RECORD" not in os.environ:
        return
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    known |= {what: value.hex() for what, value in values.items()}
    GOLDEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def topic_shape(value: bytes) -> bytes:
    """Return a ManagedLedgerInfo with its ledgers numbered from 1 and 1 for any time."""
    info = pb.ManagedLedgerInfo.FromString(value)
    assert info.SerializeToString() == value  # so nothing is hidden by what follows
    for number, ledger in enumerate(info.ledgerInfo, 1):
        ledger.ledgerId = number
        ledger.timestamp = min(ledger.timestamp, 1)
    return bytes(info.SerializeToString())


def cursor_shape(value: bytes, topic: bytes) -> bytes:
    """Return a ManagedCursorInfo in the same manner, ledgers numbered as in its ``topic``'s record.

    The position in the record of a cursor that has a ledger counts for nothing, and depends on when that was made. Our
    marks of ledgers to be deleted are properties that Apache's broker keeps and does not ask for; it drops the metadata
    of a cursor's ledger that our record has.
    """
    ledgers = pb.ManagedLedgerInfo.FromString(topic).ledgerInfo
    numbers = {ledger.ledgerId: number for number, ledger in enumerate(ledgers, 1)}
    info = pb.ManagedCursorInfo.FromString(value)
    assert info.SerializeToString() == value
    if info.cursorsLedgerId >= 0:
        info.cursorsLedgerId, info.markDeleteEntryId = 1, -1
    info.markDeleteLedgerId = numbers[info.markDeleteLedgerId]
    info.lastActive = min(info.lastActive, 1)
    info.ClearField("magnetarLedger")
    theirs = [item for item in info.properties if not item.name.startswith(OWN_PREFIX)]
    del info.properties[:]
    info.properties.extend(theirs)
    for acked in info.individualDeletedMessages:
        for end in (acked.lowerEndpoint, acked.upperEndpoint):
            end.ledgerId = numbers[end.ledgerId]
    return bytes(info.SerializeToString())
