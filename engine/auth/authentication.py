"""Identification of clients: providers by method, the anonymous role (A8), proxies and the clients that they act for
(A9)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import NamedTuple

from engine.auth.authenticators.provider import Authenticated, Check, Presented, Provider
from engine.auth.authenticators.provider_list import ProviderList
from engine.auth.authenticators.watched_file import WatchedFile
from engine.auth.credentials import (
    NO_METHOD,
    AuthenticationFailed,
    Credentials,
    RolesRefused,
)
from engine.auth.identity import Evidence, Identity

log = logging.getLogger(__name__)

EXPIRED = "EXPIRED_JWT"
REVOKED = "REVOKED_TOKEN"
LOOK_S = 1.5
"""Interval at which files of keys are checked, for open connections."""
INVALID_ROLES = "Invalid roles."
NOT_A_PROXY = "Must not set proxyVersion without connecting as a ProxyRole."


@dataclass(slots=True)
class Outcomes:
    """Numbers of checks since the start, for the metrics."""

    succeeded: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Accepted credentials by provider and method."""
    failed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Refused credentials by provider, method and kind of failure."""
    expired: int = 0
    """Tokens that were refused because they had ended."""
    files: Sequence[WatchedFile] = ()
    """Files of keys and users that are read again when they change."""


class Roles(NamedTuple):
    """Roles with a meaning of their own. ``judge_proxies`` is true where rights are judged: only then are
    proxies and the clients that they act for distinguished."""

    anonymous: str = ""
    proxies: frozenset[str] = frozenset()
    judge_proxies: bool = False
    check_original: bool = False
    """True where the credentials that a proxy forwards are checked."""


class Authentication:
    """Establishes the identity of clients; called with their credentials (an ``Authenticate``).

    Results are immediate where all providers involved answer at once. All refusals have one text; the reason goes to
    the log without any part of a credential.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        roles: Roles,
        outcomes: Outcomes | None = None,
        revoked: Container[str] = frozenset(),
    ) -> None:
        """``providers`` are in the order in which those of one method are tried. ``revoked``: ids of tokens that are
        refused."""
        by_method: dict[str, list[Provider]] = {}
        for provider in providers:
            by_method.setdefault(provider.method, []).append(provider)
        self._providers: Mapping[str, Provider] = {
            method: same[0] if len(same) == 1 else ProviderList(same)
            for method, same in by_method.items()
        }
        self.methods = frozenset(self._providers)
        """Names of the methods that are configured."""
        self._roles = roles
        self._revoked = revoked
        self.outcomes = outcomes if outcomes is not None else Outcomes()
        self.outcomes.files = [
            file for provider in providers for file in provider.files if file.exists
        ]
        self._revision = self._look()

    def __call__(self, credentials: Credentials) -> Identity | Awaitable[Identity]:
        """Return the identity of a client of the binary protocol. Raises AuthenticationFailed, RolesRefused."""
        return self._identify(credentials, self._connected_roles)

    def of_request(self, credentials: Credentials) -> Identity | Awaitable[Identity]:
        """Return the identity of a caller by HTTP. Raises AuthenticationFailed, RolesRefused."""
        return self._identify(credentials, self._request_roles)

    def is_withdrawn(self, identity: Identity) -> bool:
        """Return whether a token by which a client was identified is no longer valid (A24, A25)."""
        return any(map(self._is_withdrawn, identity.evidence))

    def _is_withdrawn(self, evidence: Evidence) -> bool:
        if evidence.token_id in self._revoked:
            return True
        # A key that moved to another provider counts as well: so is a key replaced while both serve.
        return bool(evidence.key_id) and not any(
            evidence.key_id in provider.key_ids for provider in self._providers.values()
        )

    def have_keys_changed(self) -> bool:
        """Look at the files of keys and users, and return whether one was read again since the last call."""
        before, self._revision = self._revision, self._look()
        return self._revision != before

    def _look(self) -> tuple[object, ...]:
        return tuple(provider.revision() for provider in self._providers.values())

    def _identify(
        self, credentials: Credentials, complete: "_Complete"
    ) -> Identity | Awaitable[Identity]:
        presented = Presented(credentials.data, credentials.certificate)
        own = self._check(credentials.method, presented, credentials.address)
        if not isinstance(own, Authenticated):
            return self._identify_later(credentials, own, complete)
        if not self._checks_original(credentials):
            return complete(credentials, own, None)
        return self._with_original(credentials, own, complete)

    async def _identify_later(
        self, credentials: Credentials, own: Awaitable[Authenticated], complete: "_Complete"
    ) -> Identity:
        checked = await own
        if not self._checks_original(credentials):
            return complete(credentials, checked, None)
        identity = self._with_original(credentials, checked, complete)
        return await identity if isawaitable(identity) else identity

    def _checks_original(self, credentials: Credentials) -> bool:
        return self._roles.check_original and credentials.original_principal is not None

    def _with_original(
        self, credentials: Credentials, own: Authenticated, complete: "_Complete"
    ) -> Identity | Awaitable[Identity]:
        """Return the identity after a check of what the proxy's client has presented to it."""
        method = credentials.original_method or NO_METHOD
        presented = Presented(credentials.original_data or b"")
        original = self._check(method, presented, credentials.address)
        if isawaitable(original):

            async def later() -> Identity:
                checked = await original
                # The proxy's own token may have been revoked during the check of its client's.
                self._accept(own, self._providers.get(credentials.method), credentials.address)
                return complete(credentials, own, checked)

            return later()
        return complete(credentials, own, original)

    def _connected_roles(
        self, credentials: Credentials, own: Authenticated, original: Authenticated | None
    ) -> Identity:
        principal = credentials.original_principal if original is None else original.role
        if self._roles.judge_proxies:
            is_proxy = own.role in self._roles.proxies
            valid = bool(principal) and principal not in self._roles.proxies
            if is_proxy != valid or (principal and not is_proxy):
                self._log_roles(credentials, own.role, principal)
                raise RolesRefused(INVALID_ROLES)
            if credentials.proxy_version and not is_proxy:
                self._log_roles(credentials, own.role, principal)
                raise RolesRefused(NOT_A_PROXY)
        return _identity(credentials, own, principal, original)

    def _request_roles(
        self, credentials: Credentials, own: Authenticated, original: Authenticated | None
    ) -> Identity:
        """Return the identity as ``_connected_roles`` does, but a caller that is no proxy may name itself."""
        principal = credentials.original_principal if original is None else original.role
        if self._roles.judge_proxies:
            proxies = self._roles.proxies
            if own.role in proxies:
                valid = bool(principal) and principal not in proxies
            else:
                valid = not principal or principal == own.role
            if not valid:
                self._log_roles(credentials, own.role, principal)
                raise RolesRefused(INVALID_ROLES)
        if principal == own.role:
            principal = None
        return _identity(credentials, own, principal, original)

    def _check(self, method: str, presented: Presented, address: str) -> Check:
        provider = self._providers.get(method)
        if provider is None:
            if self._roles.anonymous:
                return Authenticated(self._roles.anonymous)
            error = AuthenticationFailed(f"no provider of method {method[:50]!r}")
            self._count_failure("", "", error, address)
            raise error
        try:
            outcome = provider.authenticate(presented)
        except AuthenticationFailed as error:
            self._count_failure(provider.name, method, error, address)
            raise
        if not isinstance(outcome, Authenticated):
            return self._check_later(provider, outcome, address)
        self._accept(outcome, provider, address)
        self.outcomes.succeeded[provider.name, method] += 1
        return outcome

    async def _check_later(
        self, provider: Provider, outcome: Awaitable[Authenticated], address: str
    ) -> Authenticated:
        try:
            checked = await outcome
        except AuthenticationFailed as error:
            self._count_failure(provider.name, provider.method, error, address)
            raise
        self._accept(checked, provider, address)
        self.outcomes.succeeded[provider.name, provider.method] += 1
        return checked

    def _accept(self, checked: Authenticated, provider: Provider | None, address: str) -> None:
        """Check that a token was not withdrawn. Raises AuthenticationFailed.

        Remembered results pass here as well, so that a revoked token is refused at once.
        """
        if checked.evidence is None or provider is None:
            return
        if self._is_withdrawn(checked.evidence):
            error = AuthenticationFailed("token is revoked", REVOKED)
            self._count_failure(provider.name, provider.method, error, address)
            raise error

    def _count_failure(
        self, name: str, method: str, error: AuthenticationFailed, address: str
    ) -> None:
        self.outcomes.failed[name, method, error.kind] += 1
        self.outcomes.expired += error.kind == EXPIRED
        log.info(
            "authentication failed client=%s method=%s reason=%s", address, method, error.reason
        )

    def _log_roles(self, credentials: Credentials, role: str, principal: str | None) -> None:
        log.info(
            "roles refused client=%s role=%r original=%r", credentials.address, role, principal
        )


_Complete = Callable[[Credentials, Authenticated, Authenticated | None], Identity]
"""Returns the identity by the checked credentials of the client itself, and of the one it acts for."""


def _identity(
    credentials: Credentials,
    own: Authenticated,
    principal: str | None,
    original: Authenticated | None,
) -> Identity:
    if original is None:
        return Identity(
            own.role,
            principal or None,
            credentials.method,
            own.expires_at,
            evidence=_evidence(own),
        )
    return Identity(
        own.role,
        principal,
        credentials.method,
        # A proxy that forwards credentials is asked for those of its client alone.
        original.expires_at,
        credentials.original_method or NO_METHOD,
        (*_evidence(own), *_evidence(original)),
    )


def _evidence(checked: Authenticated) -> tuple[Evidence, ...]:
    return () if checked.evidence is None else (checked.evidence,)


async def follow_keys(authentication: Authentication, changed: Callable[[], None]) -> None:
    """Call ``changed`` within LOOK_S of each change of the keys in files, until cancelled; it must raise nothing.

    Returns at once where no setting names a file.
    """
    while authentication.outcomes.files:
        await asyncio.sleep(LOOK_S)
        if authentication.have_keys_changed():
            changed()
