"""The state of the analysis worker, which reports through Redis."""

from types import SimpleNamespace

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.redis_link import RedisSettings
from gateway.services.health import parts
from gateway.services.health.checks import NotKnownError, UnwellError
from gateway.services.health.parts import WORKER_KEY_S, Redis


class Answers:
    """A stand-in for the Redis client: the remaining ms of the worker's key, or an error."""

    def __init__(self) -> None:
        self.left_ms: int | Exception = RedisConnectionError("refused")

    async def pttl(self, key: str) -> int:
        if isinstance(self.left_ms, Exception):
            raise self.left_ms
        return self.left_ms


async def test_a_worker_is_reported_missing_only_while_redis_has_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, answers = Redis(RedisSettings("redis://127.0.0.1:1")), Answers()
    await made.close()
    made._client = answers  # type: ignore[assignment]
    now = 100.0
    monkeypatch.setattr(parts, "time", SimpleNamespace(monotonic=lambda: now))
    with pytest.raises(UnwellError):
        await made.check()
    with pytest.raises(NotKnownError, match="reports through Redis"):
        await made.check_worker()
    answers.left_ms = -2  # Redis is back, and has forgotten the key
    await made.check()
    with pytest.raises(NotKnownError, match="since Redis is back"):
        await made.check_worker()
    answers.left_ms = WORKER_KEY_S * 1000
    await made.check()
    await made.check_worker()
    now = 110.0
    answers.left_ms = (WORKER_KEY_S - 7) * 1000
    await made.check()
    with pytest.raises(UnwellError, match="has not reported for 7 s"):
        await made.check_worker()


async def test_redis_on_demand_is_missed_only_after_it_answered_once() -> None:
    redis, answers = Redis(RedisSettings("redis://127.0.0.1:1"), on_demand=True), Answers()
    await redis.close()
    redis._client = answers  # type: ignore[assignment]
    for check in (redis.check, redis.check_worker):
        with pytest.raises(NotKnownError, match="starts with the first analysis"):
            await check()
    answers.left_ms = WORKER_KEY_S * 1000
    await redis.check()
    await redis.check_worker()
    answers.left_ms = RedisConnectionError("refused")
    with pytest.raises(UnwellError, match="does not answer"):
        await redis.check()
    with pytest.raises(NotKnownError, match="reports through Redis"):
        await redis.check_worker()
