"""Access tokens of OpenID Connect issuers, and when the issuers' keys are fetched."""

import asyncio
import base64
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_sets import DISCOVERY, RETRY_S, parse_key_set
from engine.auth.authenticators.oidc_provider import OidcProvider, oidc_provider
from engine.auth.authenticators.provider import Presented, ProviderError
from engine.auth.authenticators.signing_keys import EcPrivateKey, RsaPrivateKey, SigningKey
from engine.auth.credentials import AuthenticationFailed
from engine.auth.settings import OpenIdSettings
from engine.base.errors import WorldError

pytestmark = pytest.mark.virtual_time
NOW_S = 1_700_000_000.0
ISSUER = "https://issuer.example/realm"
KEYS_AT = "https://issuer.example/keys"
RSA = [rsa.generate_private_key(65537, 2048) for _ in range(2)]
CURVE = ec.generate_private_key(ec.SECP256R1())


def number(value: int) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, kid: str, **given: Any) -> Any:
    if isinstance(key, rsa.RSAPrivateKey):
        public = key.public_key().public_numbers()
        return {"kty": "RSA", "n": number(public.n), "e": number(public.e), "kid": kid, **given}
    point = key.public_key().public_numbers()
    return {
        **{"kty": "EC", "crv": "P-256", "kid": kid},
        **{"x": number(point.x), "y": number(point.y), **given},
    }


class Issuer:
    """Pages of an issuer; ``pages`` may be changed, ``delay_s`` is the time of an answer."""

    def __init__(self, *keys: Any) -> None:
        self.asked: list[str] = []
        self.delay_s = 0.0
        self.pages: dict[str, Any] = {
            ISSUER + DISCOVERY: {"issuer": ISSUER, "jwks_uri": KEYS_AT},
            KEYS_AT: {"keys": list(keys)},
        }

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        await asyncio.sleep(self.delay_s)
        if url not in self.pages:
            raise WorldError(f"{url} does not answer")
        page = self.pages[url]
        return page if isinstance(page, bytes) else json.dumps(page).encode()

    @property
    def fetches(self) -> int:
        return self.asked.count(ISSUER + DISCOVERY)

    def publish(self, *keys: Any) -> None:
        self.pages[KEYS_AT] = {"keys": list(keys)}


def provider(issuer: Issuer, **given: Any) -> OidcProvider:
    settings = OpenIdSettings(
        **{
            "open_id_allowed_token_issuers": ISSUER,
            "open_id_allowed_audiences": "pulsar, other",
            **given,
        }
    )
    return oidc_provider(
        settings, issuer.fetch, lambda: NOW_S, lambda: asyncio.get_running_loop().time()
    )


CLAIMS = {"iss": ISSUER, "sub": "app", "aud": "pulsar", "iat": NOW_S - 5, "exp": NOW_S + 60}


def token(
    kid: str | None = "one",
    key: SigningKey | None = None,
    algorithm: str = "RS256",
    **claims: Any,
) -> bytes:
    merged = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    headers = {} if kid is None else {"kid": kid}
    return jws.sign(merged, key or RsaPrivateKey(RSA[0]), algorithm, headers).encode()


async def role(checks: OidcProvider, data: bytes) -> str:
    outcome = checks.authenticate(Presented(data))
    return (await outcome if isinstance(outcome, Awaitable) else outcome).role


async def refusal(checks: OidcProvider, data: bytes) -> str:
    with pytest.raises(AuthenticationFailed, match="Failed to authenticate") as refused:
        await role(checks, data)
    assert data.decode("latin-1") not in refused.value.reason
    return refused.value.kind


async def test_a_token_of_an_allowed_issuer_is_accepted() -> None:
    issuer = Issuer(jwk(RSA[0], "one"), jwk(CURVE, "two", alg="ES256"))
    checks = provider(issuer)
    assert await role(checks, token()) == "app"
    assert await role(checks, token("two", EcPrivateKey(CURVE), "ES256")) == "app"
    assert await role(checks, token(aud=["x", "other"], algorithm="RS512")) == "app"
    assert issuer.asked == [ISSUER + DISCOVERY, KEYS_AT]
    by_claim = provider(issuer, open_id_role_claim="client")
    assert await role(by_claim, token(client="robot")) == "robot"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer": ({"iss": "https://evil.example"}, "UNSUPPORTED_ISSUER"),
    "no issuer": ({"iss": None}, "UNSUPPORTED_ISSUER"),
    "issuer is a list": ({"iss": [ISSUER]}, "UNSUPPORTED_ISSUER"),
    "another audience": ({"aud": "x"}, "INVALID_AUDIENCES"),
    "no audience": ({"aud": None}, "INVALID_AUDIENCES"),
    "no end": ({"exp": None}, "INVALID_JWT_CLAIM"),
    "no start": ({"iat": None}, "INVALID_JWT_CLAIM"),
    "no subject": ({"sub": None}, "INVALID_TOKEN"),
    "expired": ({"exp": NOW_S - 6}, "EXPIRED_JWT"),
    "of the future": ({"iat": NOW_S + 6}, "INVALID_JWT_CLAIM"),
    "not valid yet": ({"nbf": NOW_S + 6}, "INVALID_TOKEN"),
    "padding of other signatures": ({"algorithm": "PS256"}, "UNSUPPORTED_ALGORITHM"),
    "another key": ({"key": RsaPrivateKey(RSA[1])}, "INVALID_TOKEN"),
    "unknown key": ({"kid": "nine"}, "INVALID_PUBLIC_KEY"),
    "no key id": ({"kid": None}, "INVALID_PUBLIC_KEY"),
    "another algorithm": ({"algorithm": "RS384", "kid": "fixed"}, "ALGORITHM_MISMATCH"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_token_is_refused(name: str) -> None:
    given, kind = REFUSED[name]
    checks = provider(Issuer(jwk(RSA[0], "one"), jwk(RSA[0], "fixed", alg="RS256")))
    assert await refusal(checks, token(**given)) == kind


async def test_clocks_may_differ_by_the_leeway() -> None:
    checks = provider(Issuer(jwk(RSA[0], "one")), open_id_accepted_time_leeway_seconds=10)
    for claims in ({"exp": NOW_S - 6}, {"iat": NOW_S + 6}, {"nbf": NOW_S + 6}):
        assert await role(checks, token(**claims)) == "app"


async def test_an_unknown_key_id_fetches_the_keys_at_a_bounded_rate() -> None:
    issuer = Issuer(jwk(RSA[0], "one"))
    checks = provider(issuer)
    await role(checks, token())
    issuer.publish(jwk(RSA[1], "two"))
    rotated = token("two", RsaPrivateKey(RSA[1]))
    assert await role(checks, rotated) == "app"
    assert issuer.fetches == 2
    assert await refusal(checks, token()) == "INVALID_PUBLIC_KEY"  # withdrawn
    for attempt in range(50):
        await refusal(checks, token(f"nine{attempt}"))
    assert issuer.fetches == 2
    await asyncio.sleep(300)
    await refusal(checks, token("nine"))
    assert issuer.fetches == 3


async def test_callers_share_a_fetch_and_another_continues_when_one_is_cancelled() -> None:
    issuer = Issuer(jwk(RSA[0], "one"))
    issuer.delay_s = 1.0
    checks = provider(issuer)
    callers = [asyncio.ensure_future(role(checks, token())) for _ in range(5)]
    await asyncio.sleep(0.5)
    assert issuer.fetches == 1
    callers[0].cancel()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert outcomes[1:] == ["app"] * 4
    assert issuer.fetches == 2


async def test_an_issuer_that_does_not_answer_is_asked_again_after_a_while() -> None:
    issuer = Issuer(jwk(RSA[0], "one"))
    pages, issuer.pages = issuer.pages, {}
    checks = provider(issuer)
    for _ in range(20):
        assert await refusal(checks, token()) == "ERROR_RETRIEVING_PUBLIC_KEY"
    assert issuer.fetches == 1
    issuer.pages = pages
    await asyncio.sleep(RETRY_S)
    assert await role(checks, token()) == "app"


async def test_old_keys_serve_while_new_ones_cannot_be_fetched_until_they_expire() -> None:
    issuer = Issuer(jwk(RSA[0], "one"))
    checks = provider(
        issuer,
        open_id_cache_refresh_after_write_seconds=100,
        open_id_cache_expiration_seconds=1000,
    )
    await role(checks, token())
    issuer.pages = {}
    await asyncio.sleep(100)
    assert await role(checks, token()) == "app"
    assert issuer.fetches == 2
    assert await role(checks, token()) == "app"
    assert issuer.fetches == 2
    await asyncio.sleep(900)
    assert await refusal(checks, token()) == "ERROR_RETRIEVING_PUBLIC_KEY"


BAD_PAGES: dict[str, dict[str, Any]] = {
    "another issuer": {ISSUER + DISCOVERY: {"issuer": "https://evil", "jwks_uri": KEYS_AT}},
    "no address": {ISSUER + DISCOVERY: {"issuer": ISSUER}},
    "clear address": {ISSUER + DISCOVERY: {"issuer": ISSUER, "jwks_uri": "http://x/keys"}},
    "list": {ISSUER + DISCOVERY: []},
    "no JSON": {KEYS_AT: b"<html>"},
    "deep": {KEYS_AT: b"[" * 100_000},
    "no keys": {KEYS_AT: {}},
    "too many keys": {KEYS_AT: {"keys": [{}] * 101}},
    "huge": {KEYS_AT: b" " * (1 << 20) + b"{}"},
}


@pytest.mark.parametrize("name", BAD_PAGES)
async def test_a_document_that_cannot_be_used_refuses_the_token(name: str) -> None:
    issuer = Issuer(jwk(RSA[0], "one"))
    issuer.pages |= BAD_PAGES[name]
    assert await refusal(provider(issuer), token()) == "ERROR_RETRIEVING_PUBLIC_KEY"


def test_keys_that_cannot_verify_are_left_out() -> None:
    entries = [
        None,
        {"kty": "RSA", "kid": "no numbers"},
        {"kty": "oct", "kid": "secret", "k": "AAAA"},
        {"kty": "EC", "crv": "secp256k1", "kid": "curve", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "kid": "off the curve", "x": "AA", "y": "AA"},
        jwk(rsa.generate_private_key(65537, 1024), "short"),
        jwk(RSA[0], "encrypts", use="enc"),
        jwk(RSA[0], "good", use="sig"),
    ]
    assert list(parse_key_set(json.dumps({"keys": entries}).encode())) == ["good"]


async def test_keys_may_be_in_a_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [jwk(RSA[0], "one")]}))
    issuer = Issuer()
    checks = provider(issuer, open_id_key_set_files=f"{ISSUER}={keys}")
    assert await role(checks, token()) == "app"
    assert await refusal(checks, token("two")) == "INVALID_PUBLIC_KEY"
    assert issuer.asked == []


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"open_id_allowed_token_issuers": ""}, "must name an issuer"),
        ({"open_id_allowed_audiences": " , "}, "must name an audience"),
        ({"open_id_allowed_token_issuers": "http://x"}, "must begin with https://"),
        ({"open_id_key_set_files": "keys.json"}, "issuer=path"),
        ({"open_id_key_set_files": "https://x=/nowhere"}, "cannot use /nowhere"),
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ProviderError, match=reason):
        provider(Issuer(), **given)
