"""Reads of the explicit LAC, which idle writers store on their bookies. Only the V3 protocol has it."""

import asyncio
from collections.abc import Sequence

from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.v3_channel import Answer
from engine.ledger.digest import HEADER_BYTES, Digest, header_of
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import covered
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb

IDS_BYTES = 16


def confirmed_by(response: pb.ReadLacResponse, ledger_id: int, digest: Digest) -> int:
    """Return the highest LAC that an answer to READ_LAC proves; -1 when it proves none."""
    best = -1
    body = response.lacBody
    if (
        len(body) == IDS_BYTES + digest.size
        and digest.compute(body[:IDS_BYTES], b"") == body[IDS_BYTES:]
    ):
        stored_ledger_id, lac = v3.explicit_lac_ids(body)
        if stored_ledger_id == ledger_id:
            best = lac
    entry = response.lastEntryBody
    if len(entry) >= HEADER_BYTES:
        header = header_of(entry)
        if digest.check(entry, 0, len(entry), ledger_id, header.entry_id):
            best = max(best, header.lac)
    return best


async def read_explicit_lac(
    access: LedgerAccess, metadata: LedgerMetadata, digest: Digest, timeout_s: float
) -> int:
    """Return the highest explicit LAC that bookies of the last ensemble store; -1 without one. Cancel-safe.

    Waits at most ``timeout_s`` for answers that cover every ack quorum. Bookies that do not answer, or do not support
    the request, are ignored.
    """
    ledger_id = access.ledger_id
    bookies: Sequence[str] = metadata.segments[-1].bookies
    authoritative = [False] * len(bookies)
    answered = 0
    best = -1
    wake = asyncio.Event()

    def receiver(position: int) -> Answer:
        def answer(response: pb.Response | None) -> None:
            nonlocal answered, best
            answered += 1
            if response is not None and response.status in (pb.EOK, pb.ENOENTRY, pb.ENOLEDGER):
                authoritative[position] = True
                best = max(best, confirmed_by(response.readLacResponse, ledger_id, digest))
            wake.set()

        return answer

    requests = []
    for position, bookie in enumerate(bookies):
        channel = access.bookies.links.v3(bookie)
        number = channel.request(
            lambda txn: v3.read_lac_request(txn, ledger_id), receiver(position)
        )
        requests.append((channel, number))
    try:
        async with asyncio.timeout(timeout_s):
            while answered < len(bookies) and not covered(
                authoritative, metadata.write_quorum, metadata.ack_quorum
            ):
                wake.clear()
                await wake.wait()
    except TimeoutError:
        pass  # the answers so far still count: a reader's LAC may lag behind the writer's but never lead
    finally:
        for channel, number in requests:
            channel.forget(number)
    return best
