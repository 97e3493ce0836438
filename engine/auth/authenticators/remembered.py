"""Bounded memory of verified credentials, instead of a check for each request (A10). Pure."""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from inspect import isawaitable
from typing import NamedTuple

from engine.auth.authenticators.provider import Authenticated, Check, Presented, Provider
from engine.auth.authenticators.watched_file import WatchedFile

REMEMBERED_S = 60.0
"""Longest time for which a result serves."""
REMEMBERED_MAX = 10_000
"""Results that are kept, the latest used ones."""


class _Result(NamedTuple):
    outcome: Authenticated
    until_s: float
    revision: object


class Remembered:
    """A provider that answers from memory what its ``provider`` has verified in the last REMEMBERED_S.

    Results are found by a digest: credentials themselves are not kept. Only verified ones are remembered, never longer
    than they are valid.
    """

    def __init__(self, provider: Provider, now_s: Callable[[], float]) -> None:
        """``now_s`` returns seconds since the Unix epoch."""
        self._provider = provider
        self._now_s = now_s
        self.name = provider.name
        self.method = provider.method
        self._results: OrderedDict[bytes, _Result] = OrderedDict()

    @property
    def key_ids(self) -> Collection[str]:
        return self._provider.key_ids

    @property
    def files(self) -> Sequence[WatchedFile]:
        return self._provider.files

    def revision(self) -> object:
        return self._provider.revision()

    def authenticate(self, presented: Presented) -> Check:
        digest, revision, now_s = (
            hashlib.sha256(presented.data).digest(),
            self._provider.revision(),
            self._now_s(),
        )
        result = self._results.get(digest)
        if result is not None:
            # The lower bound counts a wall clock that was set back.
            if result.until_s - REMEMBERED_S <= now_s < result.until_s and (
                result.revision == revision
            ):
                self._results.move_to_end(digest)
                return result.outcome
            del self._results[digest]
        outcome = self._provider.authenticate(presented)
        if isawaitable(outcome):
            return self._later(digest, revision, outcome)
        return self._keep(digest, revision, outcome)

    async def _later(
        self, digest: bytes, revision: object, outcome: Awaitable[Authenticated]
    ) -> Authenticated:
        return self._keep(digest, revision, await outcome)

    def _keep(self, digest: bytes, revision: object, outcome: Authenticated) -> Authenticated:
        until_s = self._now_s() + REMEMBERED_S
        if outcome.expires_at is not None:
            until_s = min(until_s, outcome.expires_at)
        self._results[digest] = _Result(outcome, until_s, revision)
        if len(self._results) > REMEMBERED_MAX:
            self._results.popitem(last=False)
        return outcome
