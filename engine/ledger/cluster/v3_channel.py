"""A V3 connection to a bookie, apart from the V2 ones: an Apache bookie closes a connection that mixes both."""

from collections.abc import Callable

from engine.ledger.cluster.link import BookieLink
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from engine.wire.bookie_commands import HEAD_BYTES

Answer = Callable[[pb.Response | None], None]
"""Callback that receives the response, or None when there will be none."""


class V3Channel(BookieLink):
    """One V3 connection to a bookie: requests in order, each answered once. ``answered`` is True once the bookie has
    answered any request."""

    def __init__(self, bookie_id: str, unsent_bytes_max: int) -> None:
        super().__init__(bookie_id, unsent_bytes_max)
        self.answered = False
        self._answers: dict[int, Answer] = {}
        self._next = 0

    def request(self, frame: Callable[[int], bytes], answer: Answer) -> int:
        """Send ``frame(transaction id)`` and return the id, to be passed to ``forget``."""
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

    def notify_down(self, reason: str) -> None:
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
