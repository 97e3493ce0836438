"""A bound of bytes per second for work in the background."""

import asyncio


class ByteRate:
    """A bound of bytes per second, shared by all work of a kind in a process; 0: none."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._free_at = 0.0

    async def take(self, size: int) -> None:
        """Wait until ``size`` more bytes may pass."""
        if not self._per_second:
            return
        now = asyncio.get_running_loop().time()
        start = max(self._free_at, now)
        self._free_at = start + size / self._per_second
        if start > now:
            await asyncio.sleep(start - now)
