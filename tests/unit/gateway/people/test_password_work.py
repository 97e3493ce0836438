"""Hashes of passwords take few threads, so that attempts do not take the memory of the process."""

import asyncio
import threading
from typing import Any

import pytest

from gateway.people.password_work import THREADS, WAITING_MAX, PasswordWork
from gateway.people.signing_in import TooManyAttemptsError


@pytest.mark.django_db
async def test_attempts_beyond_a_bound_are_refused_at_once() -> None:
    clusters: Any = None
    work = PasswordWork(clusters)
    go = threading.Event()
    running = 0
    most = 0
    lock = threading.Lock()

    def hashed() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(30)
        with lock:
            running -= 1
        return 1

    calls = [asyncio.ensure_future(work.run(hashed)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyAttemptsError):
        await work.run(hashed)
    go.set()
    assert sum(await asyncio.gather(*calls)) == WAITING_MAX
    assert most <= THREADS
    assert await work.run(hashed) == 1
