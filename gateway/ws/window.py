"""The permits of one socket: how many more messages may go out, and which are out."""

import asyncio
from typing import Any, NamedTuple


class _Out(NamedTuple):
    handle: Any
    deliveries: int


class Window:
    """W1. Every delivery takes one permit, also that of a message that comes again.

    Push mode: an answer gives back what all deliveries of its message took, so that free permits and unanswered
    deliveries always add up to what was allowed, whatever comes again (a broker that restarts, a topic that moves, an
    acknowledgement that was late) and however often the client answers. Pull mode: only the client permits.
    """

    def __init__(self) -> None:
        self.pull = False
        self._free = 0
        self._more = asyncio.Event()
        self._out: dict[str, _Out] = {}

    def allow(self, count: int) -> None:
        """``count`` more messages may go out."""
        self._free += count
        self._more.set()

    async def take(self) -> None:
        """Wait for a permit and use it. Cancel-safe."""
        while self._free <= 0:
            self._more.clear()
            await self._more.wait()
        self._free -= 1

    def delivered(self, message_id: str, handle: Any) -> None:
        """A message goes out, on a permit taken before. ``handle``: the client library's id of this delivery."""
        earlier = self._out.get(message_id)
        self._out[message_id] = _Out(handle, 1 + (earlier.deliveries if earlier else 0))

    def answered(self, message_id: str) -> Any:
        """The last delivery's handle of a message that is out, which makes room in push mode; None for any other."""
        found = self._out.pop(message_id, None)
        if found is None:
            return None
        if not self.pull:
            self.allow(found.deliveries)
        return found.handle
