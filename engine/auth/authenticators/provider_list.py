"""Several providers of one method, tried in the order in which they are configured. Pure."""

from collections.abc import Collection, Sequence
from inspect import isawaitable
from itertools import chain

from engine.auth.authenticators.provider import Authenticated, Check, Presented, Provider
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import AuthenticationFailed


class ProviderList:
    """The first provider that accepts counts; if none does, the error is the last one's."""

    name = "AuthenticationProviderList"

    def __init__(self, providers: Sequence[Provider]) -> None:
        """``providers`` has at least one, all of one method."""
        self._providers = tuple(providers)
        self.method = self._providers[0].method

    @property
    def key_ids(self) -> Collection[str]:
        return frozenset(chain.from_iterable(provider.key_ids for provider in self._providers))

    @property
    def files(self) -> Sequence[WatchedFile]:
        return [file for provider in self._providers for file in provider.files]

    def revision(self) -> object:
        return tuple(provider.revision() for provider in self._providers)

    def authenticate(self, presented: Presented) -> Check:
        return self._from(0, presented)

    def _from(self, start: int, presented: Presented) -> Check:
        """Return the first success of the providers from number ``start`` on."""
        last = len(self._providers) - 1
        for number in range(start, last + 1):
            try:
                outcome = self._providers[number].authenticate(presented)
            except AuthenticationFailed:
                if number == last:
                    raise
                continue
            return self._later(number, outcome, presented) if isawaitable(outcome) else outcome
        raise AssertionError("there is at least one provider")

    async def _later(self, number: int, outcome: Check, presented: Presented) -> Authenticated:
        try:
            return await outcome if isawaitable(outcome) else outcome
        except AuthenticationFailed:
            if number + 1 == len(self._providers):
                raise
        rest = self._from(number + 1, presented)
        return await rest if isawaitable(rest) else rest
