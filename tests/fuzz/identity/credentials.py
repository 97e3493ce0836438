"""Parsers of what clients present to be identified, and of the documents by which that is checked."""

import base64
import json

from bookie.requests.strangers import role_of
from engine.auth.authentication import Authentication, Roles
from engine.auth.authenticators import jws
from engine.auth.authenticators.basic_provider import read_users
from engine.auth.authenticators.certificate_provider import CertificateProvider
from engine.auth.authenticators.key_sets import parse_key_set
from engine.auth.authenticators.password_hashes import PASSWORD_BYTES_MAX, verifies
from engine.auth.authenticators.provider import Presented, ProviderError
from engine.auth.authenticators.signing_keys import SecretKey
from engine.auth.authenticators.token_provider import TokenProvider
from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.auth.http_credentials import credentials_of
from engine.auth.identity import Identity
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


def token_of(role: str) -> bytes:
    return jws.sign({"sub": role, "aud": "me"}, KEY, "HS256").encode()


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


def subject(data: bytes) -> None:
    """Parse a certificate whose subject has the attributes ``name=value`` of each line, a blank between those of one
    part: both the role at brokers and that at bookies."""
    parts = tuple(
        tuple((name, value) for name, _, value in (item.partition("=") for item in line.split(" ")))
        for line in data.decode("utf-8", "surrogateescape").split("\n")
    )
    parsed = {"subject": parts, "notAfter": "Nov 14 22:13:20 2030 GMT"}
    at_bookies = role_of(parsed)
    assert not set(at_bookies) & {",", ";"}
    outcome = CertificateProvider(lambda: 0.0).authenticate(Presented(b"", parsed))
    named = [value for part in parts for name, value in part if name == "commonName"]
    assert outcome.role in named
    assert outcome.role.strip()


JUDGED = Authentication(
    [PROVIDER, CertificateProvider(lambda: 0.0)],
    Roles(proxies=frozenset({"proxy"}), judge_proxies=True),
)
CERTIFICATE = {"subject": ((("commonName", "by-tls"),),), "notAfter": "Nov 14 22:13:20 2030 GMT"}


def headers(data: bytes) -> None:
    """Identify the caller of a request with the header ``name: value`` of each line, with and without a certificate."""
    lines = (line.partition(":") for line in data.decode("latin-1").split("\n"))
    given = {name.strip().lower(): value.strip() for name, _, value in lines}
    refused = 0
    for certificate in (None, CERTIFICATE):
        try:
            identity = JUDGED.of_request(
                credentials_of(given, certificate, "a:1", frozenset({"token", "tls"}))
            )
        except (AuthenticationFailed, RolesRefused):
            refused += 1
            continue
        assert isinstance(identity, Identity)
        assert identity.role
        # The certificate counts where nothing else was shown, or where its method is named.
        by_tls = not given.get("authorization") or given.get("x-pulsar-auth-method-name") == "tls"
        assert identity.method == ("tls" if by_tls else "token")
        assert (identity.original is not None) <= (identity.role == "proxy")
        assert identity.role != "proxy" or identity.original not in (None, "", "proxy")
    if refused == 2:
        raise AuthenticationFailed("refused")


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
    Target(
        "subject of a certificate",
        subject,
        [
            b"organizationName=Example\ncommonName=app",
            b"organizationalUnitName=0:broker,other;1:x commonName=a\ncommonName=\xd0\xb0",
        ],
        REFUSED,
        words=[b"commonName=", b"organizationalUnitName=0:", b"\x00", b";0:", b","],
    ),
    Target(
        "headers of a request",
        headers,
        [
            b"Authorization: Bearer " + token_of("app"),
            b"Authorization: Bearer " + token_of("proxy") + b"\nX-Original-Principal: user",
            b"X-Pulsar-Auth-Method-Name: tls\nAuthorization: Basic dTpw",
            b"X-Original-Principal: root\nAuthorization:",
        ],
        REFUSED,
        words=[
            b"X-Original-Principal: proxy\n",
            b"X-Pulsar-Auth-Method-Name: tls\n",
            b"X-Pulsar-Auth-Method-Name: token\n",
            b"Authorization: \n",
            b"Bearer ",
            b"Basic ",
        ],
    ),
    Target("certificate", certificate, [b"app\nNov 14 22:13:20 2030 GMT"], REFUSED),
)
