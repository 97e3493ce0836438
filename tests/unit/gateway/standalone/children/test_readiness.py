"""Redis and Celery's worker are ready only once they answer as what they are."""

import asyncio
from pathlib import Path

from gateway.standalone.children.readiness import is_ready
from gateway.standalone.plan import Ready


class Redis:
    """A server that answers as Redis does: PING while it loads its file and afterwards, GET of a worker's key."""

    def __init__(self) -> None:
        self.loading = True
        self.asks_for_password = False
        self.worker_pid = 0
        self.port = 0

    async def __aenter__(self) -> "Redis":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readline()
        if asked == b"AUTH right\r\n":
            writer.write(b"+OK\r\n")
            asked = await reader.readline()
        elif self.asks_for_password:
            writer.write(b"-NOAUTH Authentication required.\r\n")
            writer.close()
            return
        if self.loading:
            writer.write(b"-LOADING Redis is loading the dataset in memory\r\n")
        elif asked == b"PING\r\n":
            writer.write(b"+PONG\r\n")
        elif asked == b"GET magnetar:worker\r\n":
            text = str(self.worker_pid)
            writer.write(f"${len(text)}\r\n{text}\r\n".encode() if text != "0" else b"$-1\r\n")
        writer.close()


async def test_a_redis_that_loads_its_file_is_not_ready() -> None:
    async with Redis() as redis:
        assert not await is_ready(Ready("redis", redis.port), "127.0.0.1")
        redis.loading = False
        assert await is_ready(Ready("redis", redis.port), "127.0.0.1")


async def test_a_redis_with_a_password_is_asked_by_it(tmp_path: Path) -> None:
    async with Redis() as redis:
        redis.loading, redis.asks_for_password = False, True
        path = tmp_path / "password"
        for text, ready in (("wrong", False), ("right", True)):
            path.write_text(text)
            spec = Ready("redis", redis.port, password_file=path)
            assert await is_ready(spec, "127.0.0.1") is ready


async def test_a_worker_is_ready_when_its_own_process_accepts_work() -> None:
    async with Redis() as redis:
        redis.loading = False
        for redis.worker_pid, ready in ((0, False), (123, False), (1234, True)):
            assert await is_ready(Ready("worker", redis.port), "127.0.0.1", 1234) is ready
