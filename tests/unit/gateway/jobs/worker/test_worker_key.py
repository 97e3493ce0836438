"""The sign by which a worker is seen comes again, whatever an attempt to give it ended by."""

import logging
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.jobs import tasks

OUTCOMES: list[Exception | None] = [
    None,
    *(ValueError("unexpected"), RedisConnectionError("away"), None),
    RedisConnectionError("away"),
    None,
]


class Turns:
    """A replacement for the event that ends the worker, set after a number of turns."""

    def __init__(self, count: int) -> None:
        self.left = count

    def wait(self, seconds: float) -> bool:
        self.left -= 1
        return self.left == 0


def test_a_worker_is_seen_again_and_each_episode_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    left = [*OUTCOMES]
    seen = 0

    class Client:
        def set(self, *given: Any, **more: Any) -> None:
            nonlocal seen
            if (error := left.pop(0)) is not None:
                raise error
            seen += 1

    clients = [ValueError("no such URL"), Client()]

    def from_url(*given: Any, **more: Any) -> Client:
        made = clients.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    monkeypatch.setattr(tasks.redis, "from_url", from_url)
    monkeypatch.setattr(tasks, "_stopping", Turns(len(OUTCOMES) + 1))
    with caplog.at_level(logging.WARNING):
        tasks._renew_worker_key_for_ever()
    assert (seen, left) == (3, [])
    messages = [record.getMessage() for record in caplog.records]
    assert [text.rpartition(": ")[2] for text in messages] == ["no such URL", "unexpected", "away"]
