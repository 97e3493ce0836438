"""Threads for work that hashes passwords: few, since a hash takes 46 MiB and a processor."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from channels.db import DatabaseSyncToAsync

from gateway.clusters.registry import Clusters
from gateway.people.signing_in import TooManyAttemptsError

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 2
WAITING_MAX = 40
"""Calls that wait or run, of all callers; a hash takes some 50 ms."""
RETRY_AFTER_S = 2


class PasswordWork:
    """The threads, a part of the process's clusters."""

    def __init__(self, clusters: Clusters) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        self._calls = 0

    async def run(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run ``work``, which uses the database, in a thread. Raises what it raises, and TooManyAttemptsError."""
        if self._calls >= WAITING_MAX:
            raise TooManyAttemptsError(RETRY_AFTER_S)
        self._calls += 1
        try:
            call = DatabaseSyncToAsync(work, thread_sensitive=False, executor=self._threads)
            done: T = await call(*args, **named)
            return done
        finally:
            self._calls -= 1
