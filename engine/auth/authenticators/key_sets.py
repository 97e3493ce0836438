"""Sets of an issuer's public keys (JWKS): parsed, fetched, and fetched again at bounded rates."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from engine.auth.authenticators.jws import decode_base64url
from engine.auth.authenticators.provider import ProviderError
from engine.auth.authenticators.signing_keys import (
    EcPublicKey,
    RsaPublicKey,
    VerificationKey,
)
from engine.auth.credentials import AuthenticationFailed
from engine.base.errors import MagnetarError

log = logging.getLogger(__name__)

KEYS_MAX = 100
DOCUMENT_BYTES_MAX = 1 << 20
UNAVAILABLE = "ERROR_RETRIEVING_PUBLIC_KEY"
RETRY_S = 3.0
"""Time after a failed fetch in which none is tried: clients of an issuer are in within 5 s after it answers again."""
DISCOVERY = "/.well-known/openid-configuration"
Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the body of a page that is answered 200. Raises MagnetarError."""
_CURVES: Mapping[str, ec.EllipticCurve] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}


class PublishedKey(NamedTuple):
    """A key of a set, and the one algorithm that it is published for, if any."""

    key: VerificationKey
    algorithm: str | None


KeySet = Mapping[str, PublishedKey]
"""Keys by their id; a key without one has the id ""."""


class FetchError(MagnetarError):
    """An issuer's keys could not be fetched."""


class _GivenUpError(MagnetarError):
    """The caller that fetched was cancelled."""


def parse_key_set(data: bytes) -> KeySet:
    """Return the keys that verify signatures; keys of other kinds are left out. Raises ValueError."""
    entries = _object(data).get("keys")
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise ValueError(f"a set of keys is a list of at most {KEYS_MAX}")
    keys: dict[str, PublishedKey] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use") not in (None, "sig"):
            continue
        try:
            key = _key(entry)
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a published key is left out: %s", type(error).__name__)
            continue
        algorithm, key_id = entry.get("alg"), entry.get("kid")
        if key is not None:
            published = algorithm if isinstance(algorithm, str) else None
            keys[key_id if isinstance(key_id, str) else ""] = PublishedKey(key, published)
    return keys


def _key(entry: Mapping[str, Any]) -> VerificationKey | None:
    """Return the key of one entry, None for a kind that is not supported. Raises ValueError, TypeError, KeyError."""
    if entry.get("kty") == "RSA":
        numbers = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"]))
        return RsaPublicKey(numbers.public_key())
    if entry.get("kty") == "EC" and entry.get("crv") in _CURVES:
        curve = _CURVES[entry["crv"]]
        point = ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve)
        return EcPublicKey(point.public_key())
    return None


def _number(text: str) -> int:
    return int.from_bytes(decode_base64url(text.rstrip("=")), "big")


def _object(data: bytes) -> dict[str, Any]:
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"document is larger than {DOCUMENT_BYTES_MAX} bytes")
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("document is too deep") from error
    if not isinstance(document, dict):
        raise ValueError("document is not a JSON object")
    return document


class FileKeys:
    """Keys of an issuer that were read from a file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ProviderError."""
        try:
            self._keys = parse_key_set(path.read_bytes())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ProviderError(f"open_id_key_set_files: cannot use {path}: {reason}") from error

    def key(self, key_id: str) -> PublishedKey:
        """Return the key with this id. Raises AuthenticationFailed."""
        try:
            return self._keys[key_id]
        except KeyError:
            raise unknown_key() from None


class FetchedKeys:
    """Keys that an issuer publishes, by its discovery document.

    They are fetched with the first token, again after ``refresh_s`` while the old ones serve, at most once in
    ``miss_s`` for an unknown key id, and not within RETRY_S of a failure. Callers that need the same fetch share it.
    Keys older than ``expire_s`` do not serve.
    """

    def __init__(
        self,
        issuer: str,
        fetch: Fetch,
        now_s: Callable[[], float],
        *,
        refresh_s: float,
        expire_s: float,
        miss_s: float,
        https_only: bool,
    ) -> None:
        """``now_s`` returns seconds of a clock that never steps back."""
        self._issuer = issuer
        self._fetch = fetch
        self._now_s = now_s
        self._refresh_s = refresh_s
        self._expire_s = expire_s
        self._miss_s = miss_s
        self._https_only = https_only
        self._keys: KeySet = {}
        self._fetched_at = self._missed_at = self._failed_at = float("-inf")
        self._fetching: asyncio.Future[None] | None = None

    def key(self, key_id: str) -> PublishedKey | Awaitable[PublishedKey]:
        """Return the key with this id, at once when it is in memory and fresh. Raises AuthenticationFailed."""
        now_s = self._now_s()
        age_s = now_s - self._fetched_at
        known = self._keys.get(key_id) if age_s < self._expire_s else None
        if known is not None:
            failed = now_s - self._failed_at < RETRY_S
            if age_s < self._refresh_s or failed or self._fetching is not None:
                return known
            return self._refreshed(key_id, known)
        if age_s < self._expire_s:
            if now_s - self._missed_at < self._miss_s and self._fetching is None:
                raise unknown_key()
            if self._fetching is None:
                self._missed_at = now_s
        if self._fetching is None and now_s - self._failed_at < RETRY_S:
            raise AuthenticationFailed("the issuer's keys could not be fetched", UNAVAILABLE)
        return self._fetched(key_id)

    async def _refreshed(self, key_id: str, known: PublishedKey) -> PublishedKey:
        """Return the key of a new fetch; the one known where that fails, but not where it was withdrawn."""
        try:
            await self._shared_fetch()
        except FetchError:
            return known
        return self._held(key_id)

    async def _fetched(self, key_id: str) -> PublishedKey:
        try:
            await self._shared_fetch()
        except FetchError as error:
            raise AuthenticationFailed(str(error), UNAVAILABLE) from error
        return self._held(key_id)

    def _held(self, key_id: str) -> PublishedKey:
        try:
            return self._keys[key_id]
        except KeyError:
            raise unknown_key() from None

    async def _shared_fetch(self) -> None:
        """Fetch the keys, or wait for the fetch that is under way. Raises FetchError. Cancel-safe: when the caller that
        fetches is cancelled, another one continues."""
        while self._fetching is not None:
            try:
                await asyncio.shield(self._fetching)
            except _GivenUpError:
                continue
            return
        shared = self._fetching = asyncio.get_running_loop().create_future()
        shared.add_done_callback(lambda future: future.cancelled() or future.exception())
        try:
            self._keys = await self._load()
            self._fetched_at = self._now_s()
            shared.set_result(None)
        except (MagnetarError, ValueError) as error:
            self._failed_at, self._missed_at = self._now_s(), float("-inf")
            failure = FetchError(f"keys of {self._issuer} are not available: {error}")
            log.warning("%s", failure)
            shared.set_exception(failure)
            raise failure from error
        except BaseException:
            shared.set_exception(_GivenUpError())
            raise
        finally:
            self._fetching = None

    async def _load(self) -> KeySet:
        document = _object(await self._fetch(self._issuer.rstrip("/") + DISCOVERY))
        if document.get("issuer") != self._issuer:
            raise ValueError("the discovery document is of another issuer")
        address = document.get("jwks_uri")
        if not isinstance(address, str):
            raise ValueError("the discovery document names no keys")
        if self._https_only and not address.startswith("https://"):
            raise ValueError("the address of the keys is not https")
        keys = parse_key_set(await self._fetch(address))
        log.info("fetched keys issuer=%s keys=%d", self._issuer, len(keys))
        return keys


def unknown_key() -> AuthenticationFailed:
    """Return the error of a token whose key is not published."""
    return AuthenticationFailed("the token's key is not one of the issuer", "INVALID_PUBLIC_KEY")
