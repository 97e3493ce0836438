"""Explicit LAC: what an idle writer tells its bookies about the last confirmed entry, and what readers ask of them.

Only V3 has it, so it goes over a connection of its own: an Apache bookie closes one that mixes V2 and V3.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.ledger.cluster.link import BookieLink
from engine.ledger.digest import HEADER_BYTES, Digest, header_of
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import covered, write_set
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from engine.wire.bookie_commands import HEAD_BYTES

Answer = Callable[[pb.Response | None], None]
"""Takes a response, or None when there will be none."""

IDS_BYTES = 16


class V3Channel(BookieLink):
    """One V3 connection to a bookie: requests in order, each answered once. ``answered``: it has answered anything."""

    def __init__(self, bookie_id: str, unsent_bytes_max: int) -> None:
        super().__init__(bookie_id, unsent_bytes_max)
        self.answered = False
        self._answers: dict[int, Answer] = {}
        self._next = 0

    def request(self, frame: Callable[[int], bytes], answer: Answer) -> int:
        """Send ``frame(transaction id)``; returns the id, to ``forget`` it with."""
        self._next += 1
        number = self._next
        if self.down is not None:
            self._loop.call_soon(answer, None)
        else:
            self._answers[number] = answer
            self.send(frame(number))
        return number

    def forget(self, number: int) -> None:
        self._answers.pop(number, None)

    def tell_down(self, reason: str) -> None:
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer(None)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while end - pos >= HEAD_BYTES and self.down is None:
            stop = pos + 4 + int.from_bytes(buf[pos : pos + 4], "big")
            if stop > end:
                break
            response = v3.parse_response(buf, pos, stop)
            self.answered = True
            answer = self._answers.pop(response.header.txnId, None)
            if answer is not None:
                answer(response)
            pos = stop
        return pos


class Channels(Protocol):
    """Where V3 channels come from."""

    def v3(self, bookie_id: str) -> V3Channel: ...


def tell(
    ledger_id: int,
    lac: int,
    metadata: LedgerMetadata,
    digest: Digest,
    key: bytes,
    channels: Channels,
) -> None:
    """Send the last confirmed entry to its write set. Nobody waits for the answers: the next one says more."""
    body = v3.explicit_lac(ledger_id, lac, b"")
    body += digest.compute(body, b"")
    bookies = metadata.bookies(max(lac, 0))
    for position in write_set(max(lac, 0), metadata.ensemble_size, metadata.write_quorum):
        channels.v3(bookies[position]).request(
            lambda number: v3.write_lac_request(number, ledger_id, lac, key, body),
            lambda _response: None,
        )


def confirmed_by(response: pb.ReadLacResponse, ledger_id: int, digest: Digest) -> int:
    """The highest last confirmed entry that an answer to READ_LAC proves; -1 when it proves none."""
    best = -1
    body = response.lacBody
    if (
        len(body) == IDS_BYTES + digest.size
        and digest.compute(body[:IDS_BYTES], b"") == body[IDS_BYTES:]
    ):
        told, lac = v3.explicit_lac_ids(body)
        if told == ledger_id:
            best = lac
    entry = response.lastEntryBody
    if len(entry) >= HEADER_BYTES:
        header = header_of(entry)
        if digest.check(entry, 0, len(entry), ledger_id, header.entry_id):
            best = max(best, header.lac)
    return best


async def ask(
    ledger_id: int,
    metadata: LedgerMetadata,
    *,
    channels: Channels,
    timeout_s: float,
    digest: Digest,
) -> int:
    """The highest explicit LAC that bookies of the last ensemble know, -1 without one. Waits for every ack quorum at
    most ``timeout_s``; whoever does not answer or does not know the request counts for nothing. Cancel-safe."""
    bookies: Sequence[str] = metadata.segments[-1].bookies
    heard = [False] * len(bookies)
    answered = 0
    best = -1
    wake = asyncio.Event()

    def listen(position: int) -> Answer:
        def answer(response: pb.Response | None) -> None:
            nonlocal answered, best
            answered += 1
            if response is not None and response.status in (pb.EOK, pb.ENOENTRY, pb.ENOLEDGER):
                heard[position] = True
                best = max(best, confirmed_by(response.readLacResponse, ledger_id, digest))
            wake.set()

        return answer

    asked = []
    for position, bookie in enumerate(bookies):
        channel = channels.v3(bookie)
        number = channel.request(lambda txn: v3.read_lac_request(txn, ledger_id), listen(position))
        asked.append((channel, number))
    try:
        async with asyncio.timeout(timeout_s):
            while answered < len(bookies) and not covered(
                heard, metadata.write_quorum, metadata.ack_quorum
            ):
                wake.clear()
                await wake.wait()
    except TimeoutError:
        pass  # what was heard still counts: a last confirmed entry may lag, never lead
    finally:
        for channel, number in asked:
            channel.forget(number)
    return best
