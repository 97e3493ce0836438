"""Parsers of what clients present to be identified, and of the documents by which that is checked."""

import base64
import json

from engine.auth.authenticators import jws
from engine.auth.authenticators.basic_provider import read_users
from engine.auth.authenticators.certificate_provider import CertificateProvider
from engine.auth.authenticators.key_sets import parse_key_set
from engine.auth.authenticators.password_hashes import PASSWORD_BYTES_MAX, verifies
from engine.auth.authenticators.provider import Presented, ProviderError
from engine.auth.authenticators.signing_keys import SecretKey
from engine.auth.authenticators.token_provider import TokenProvider
from engine.auth.credentials import AuthenticationFailed
from engine.auth.http_credentials import credentials_of
from tests.fuzz.target import Target

KEY = SecretKey(bytes(32))
PROVIDER = TokenProvider(KEY, lambda: 1000.0, audience_claim="aud", audience="me")
SIGNED = [
    jws.sign(claims, KEY, "HS256", {"kid": "k"}).encode()
    for claims in (
        {"sub": "app"},
        {"sub": ["app", 1], "aud": ["me"], "exp": 2000, "nbf": 1.5},
        {"sub": "", "aud": {"me": None}, "exp": None, "iat": "1"},
    )
]
APR1 = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"


def token(data: bytes) -> None:
    outcome = PROVIDER.authenticate(Presented(data))
    assert outcome.role.strip()
    assert outcome.expires_at is None or outcome.expires_at > 1000.0


def resigned(data: bytes) -> bytes:
    """Return a token with these header and claims that is signed correctly."""
    signed = data.rpartition(b".")[0]
    signature = base64.urlsafe_b64encode(KEY.sign("HS256", signed)).rstrip(b"=")
    return signed + b"." + signature


def unpacked(data: bytes) -> None:
    """Parse a token made of a header and claims on two lines, correctly signed."""
    header, _, claims = data.partition(b"\n")
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, claims)]
    token(resigned(b".".join([*parts, b""])))


def header(data: bytes) -> None:
    name, _, value = data.decode("latin-1").partition("\n")
    given = credentials_of(
        {"authorization": value, name.lower(): value}, None, "a:1", frozenset({"token", "tls"})
    )
    assert given.method in ("none", "token", "basic", "tls")


def key_set(data: bytes) -> None:
    for published in parse_key_set(data).values():
        published.key.verifies(published.key.algorithms[0], b"data", data[:256])


def users(data: bytes) -> None:
    text = f"data:;base64,{base64.b64encode(data).decode()}"
    for stored in read_users(text).values():
        if stored.startswith("$apr1$"):
            verifies(stored, data[:PASSWORD_BYTES_MAX])


def certificate(data: bytes) -> None:
    subject, _, end = data.decode("latin-1").partition("\n")
    parsed = {"subject": ((("commonName", subject),),), "notAfter": end}
    assert CertificateProvider(lambda: 0.0).authenticate(Presented(b"", parsed)).role


KEY_SET = json.dumps(
    {
        "keys": [
            {
                **{"kty": "EC", "crv": "P-256", "kid": "a", "use": "sig", "alg": "ES256"},
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
            },
            {"kty": "RSA", "e": "AQAB", "n": "x" * 342, "kid": "b"},
        ]
    }
).encode()
REFUSED = (AuthenticationFailed,)
CREDENTIALS = (
    Target("token", token, SIGNED, REFUSED, sealed=resigned),
    Target(
        "claims of a token",
        unpacked,
        [b'{"alg":"HS256"}\n{"sub":"app","aud":"me","exp":2000}'],
        REFUSED,
        words=[b"Infinity", b"1e999", b"null", b"true", b'"crit"', b'"HS512"', b"\\ud800"],
    ),
    Target(
        "authorization header",
        header,
        [b"x-original-principal\nBearer a.b.c", b"x-pulsar-auth-method-name\nBasic dTpw"],
        REFUSED,
    ),
    Target("key set", key_set, [KEY_SET], (ValueError,)),
    Target("users", users, [f"# x\nuser:{APR1}\n".encode()], (ProviderError,)),
    Target("certificate", certificate, [b"app\nNov 14 22:13:20 2030 GMT"], REFUSED),
)
