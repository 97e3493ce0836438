"""Signed tokens in the compact form of RFC 7515 and 7519: parse, check, sign. Pure.

The key decides which algorithms it verifies: a public key never serves as an HMAC secret, and ``none`` is unknown (A7).
"""

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.auth.authenticators.signing_keys import SigningKey, VerificationKey
from engine.auth.credentials import AuthenticationFailed
from engine.base.errors import refuse_constant

TOKEN_BYTES_MAX = 32 << 10
"""Length of the longest token that is parsed."""
HEADER_BYTES_MAX = 4 << 10
INVALID = "INVALID_TOKEN"
EXPIRED = "EXPIRED_JWT"
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
TOKEN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~=+-]{0,70}")
"""Form of the ids of tokens; they are names of nodes in the metadata store."""


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A token whose signature was not checked. ``claims`` must not be used before ``verify``."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes

    @property
    def algorithm(self) -> str:
        return str(self.header["alg"])

    @property
    def key_id(self) -> str | None:
        key_id = self.header.get("kid")
        return key_id if isinstance(key_id, str) else None


def parse(text: str) -> Token:
    """Split and decode a token without checking it. Raises AuthenticationFailed."""
    if len(text) > TOKEN_BYTES_MAX:
        raise AuthenticationFailed(f"token is longer than {TOKEN_BYTES_MAX} bytes", INVALID)
    parts = text.split(".")
    if len(parts) != 3:
        raise AuthenticationFailed("not a token of three parts", INVALID)
    if len(parts[0]) > HEADER_BYTES_MAX:
        raise AuthenticationFailed("header of the token is too long", INVALID)
    header, claims = _document(parts[0], "header"), _document(parts[1], "claims")
    if not isinstance(header.get("alg"), str):
        raise AuthenticationFailed("token names no algorithm", INVALID)
    if "crit" in header:
        raise AuthenticationFailed("token has critical extensions, none is supported", INVALID)
    return Token(header, claims, f"{parts[0]}.{parts[1]}".encode(), _decoded(parts[2], "signature"))


def verify(token: Token, key: VerificationKey) -> Mapping[str, Any]:
    """Return the claims of a token that ``key`` has signed. Raises AuthenticationFailed."""
    if token.algorithm not in key.algorithms:
        raise AuthenticationFailed(
            f"algorithm {token.algorithm[:20]!r} is not one of the key", INVALID
        )
    if not key.verifies(token.algorithm, token.signed, token.signature):
        raise AuthenticationFailed("signature of the token is wrong", INVALID)
    return token.claims


def check_times(claims: Mapping[str, Any], now_s: float, leeway_s: float = 0.0) -> float | None:
    """Return the time at which the token ends, None without one. Raises AuthenticationFailed when it has ended or is
    not valid yet."""
    expires_at, starts_at = time_of(claims, "exp"), time_of(claims, "nbf")
    if expires_at is not None and now_s >= expires_at + leeway_s:
        raise AuthenticationFailed("token has expired", EXPIRED)
    if starts_at is not None and now_s < starts_at - leeway_s:
        raise AuthenticationFailed("token is not valid yet", INVALID)
    return None if expires_at is None else expires_at + leeway_s


def time_of(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a time among the claims in seconds, None without it. Raises AuthenticationFailed for anything else."""
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AuthenticationFailed(f"claim {name} is not a time", INVALID)
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise AuthenticationFailed(f"claim {name} is not a time", INVALID)
    return seconds


def role_of(claims: Mapping[str, Any], name: str) -> str:
    """Return the role in a claim: a text, or the first element of an array. Raises AuthenticationFailed without one."""
    value = claims.get(name)
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, str) or not value.strip():
        raise AuthenticationFailed(f"token has no role in claim {name}", INVALID)
    try:
        value.encode()
    except UnicodeEncodeError:
        # JSON can escape half of a character, which no log, record or command can hold.
        reason = f"claim {name} has half of a character (a lone surrogate)"
        raise AuthenticationFailed(reason, INVALID) from None
    return value


def token_id(token: Token) -> str:
    """Return the id by which a token is revoked: its ``jti``, else ``sha256:`` and the digest of its signed part.

    The rest of a token may have other forms with the same signature, which would be other ids.
    """
    own = token.claims.get("jti")
    if isinstance(own, str) and TOKEN_ID.fullmatch(own):
        return own
    digest = hashlib.sha256(token.signed)
    return f"sha256:{digest.hexdigest()}"


def sign(
    claims: Mapping[str, Any],
    key: SigningKey,
    algorithm: str,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Return a token. Raises ValueError when the key is of another kind than ``algorithm``."""
    header = {**(headers or {}), "alg": algorithm}
    signed = f"{_encoded(_json(header))}.{_encoded(_json(claims))}"
    return f"{signed}.{_encoded(key.sign(algorithm, signed.encode()))}"


def unsigned_parts(text: str) -> tuple[str, str]:
    """Return the header and the claims of a token as JSON texts, unchecked, for people. Raises AuthenticationFailed."""
    token = parse(text)
    return _json(token.header).decode(), _json(token.claims).decode()


def decode_base64url(text: str) -> bytes:
    """Decode Base64 for URLs without padding. Raises ValueError."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not Base64 for URLs")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not Base64 for URLs") from error


def _decoded(part: str, what: str) -> bytes:
    try:
        return decode_base64url(part)
    except ValueError as error:
        raise AuthenticationFailed(f"{what} of the token is not Base64", INVALID) from error


def _document(part: str, what: str) -> dict[str, Any]:
    data = _decoded(part, what)
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise AuthenticationFailed(f"{what} of the token is not JSON", INVALID) from error
    if not isinstance(document, dict):
        raise AuthenticationFailed(f"{what} of the token is not a JSON object", INVALID)
    return document


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
