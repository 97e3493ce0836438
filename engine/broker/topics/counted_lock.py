"""A lock that counts its users."""

import asyncio


class CountedLock:
    """A lock for ``async with``. ``users``: number of tasks that hold or await it. Cancel-safe."""

    __slots__ = ("_lock", "users")

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.users = 0

    async def __aenter__(self) -> None:
        self.users += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self.users -= 1
            raise

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()
        self.users -= 1
