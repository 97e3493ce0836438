"""Forged tokens: algorithms, keys and claims that an attacker chooses."""

import base64
import hmac
import json
import socket
import zlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from engine.auth.actions import Action
from engine.auth.authenticators import jws, signing_keys
from engine.auth.authenticators.key_texts import secret_key, verification_key
from engine.auth.authenticators.oidc_provider import OidcProvider
from engine.auth.authenticators.provider import Presented, ProviderError
from engine.auth.authenticators.signing_keys import (
    RsaPrivateKey,
    SecretKey,
    SigningKey,
    VerificationKey,
    public_key,
)
from engine.auth.authenticators.token_provider import TokenProvider
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Identity
from engine.auth.judge import Verdict
from engine.auth.resource_names import CLUSTER
from tests.support.access.callers import SUPERUSER
from tests.support.access.matrix import stored_judge

NOW_S = 1_700_000_000.0
SECRET = bytes(range(64))
ISSUER = "https://issuer.example"
RSA = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
OTHERS = rsa.generate_private_key(65537, 2048)
"""The attacker's own key."""


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(document: Any) -> str:
    return encoded((document if isinstance(document, str) else json.dumps(document)).encode())


def signed(header: Any, claims: Any, secret: bytes = SECRET) -> str:
    """Return a token of any form with the signature that HS256 gives with ``secret``."""
    text = f"{part(header)}.{part(claims)}"
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def role(text: str, key: VerificationKey | None = None, **given: Any) -> str:
    provider = TokenProvider(key or SecretKey(SECRET), lambda: NOW_S, **given)
    return provider.authenticate(Presented(text.encode())).role


def assert_refused(text: str, key: VerificationKey | None = None, **given: Any) -> None:
    with pytest.raises(AuthenticationFailed, match=r"^Failed to authenticate$"):
        role(text, key, **given)


KEYS: dict[str, VerificationKey] = {
    "secret": SecretKey(SECRET),
    "RSA": public_key(RSA.public_key()),
    "EC": public_key(CURVE.public_key()),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "none ", "", "\x00none"])
def test_a_token_without_a_signature_is_refused(algorithm: str, key: str) -> None:
    header, claims = {"alg": algorithm, "typ": "JWT"}, {"sub": SUPERUSER}
    assert_refused(f"{part(header)}.{part(claims)}.", KEYS[key])
    assert_refused(signed(header, claims), KEYS[key])


def as_jwk(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    def number(value: int) -> str:
        return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))

    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return json.dumps({"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}).encode()
    point = key.public_numbers()
    shown = {"kty": "EC", "crv": "P-256", "x": number(point.x), "y": number(point.y)}
    return json.dumps(shown).encode()


def encodings(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> dict[str, bytes]:
    """Return the forms in which a public key is passed around."""
    forms = {
        "PEM": key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "DER": key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "SSH": key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        "JWK": as_jwk(key),
    }
    if isinstance(key, rsa.RSAPublicKey):
        forms["PKCS#1 PEM"] = key.public_bytes(Encoding.PEM, PublicFormat.PKCS1)
        forms["PKCS#1 DER"] = key.public_bytes(Encoding.DER, PublicFormat.PKCS1)
    return forms


@pytest.mark.parametrize("public", [RSA.public_key(), CURVE.public_key()], ids=["RSA", "EC"])
def test_the_public_key_in_no_form_is_a_secret(public: Any) -> None:
    """Refuse tokens that were signed by HMAC with what everybody may know, and such a secret in the settings."""
    for name, form in encodings(public).items():
        for secret in (form, form.strip(), form + b"\n"):
            for algorithm in ("HS256", "HS384", "HS512", "hs256", "RS256", "ES256"):
                text = f"{part({'alg': algorithm})}.{part({'sub': SUPERUSER})}"
                digest = hmac.digest(secret, text.encode(), f"sha{algorithm[2:]}")
                assert_refused(f"{text}.{encoded(digest)}", public_key(public))
        url = f"data:;base64,{base64.b64encode(form).decode()}"
        with pytest.raises(ProviderError, match="public or private key"):
            secret_key(url, f"token_secret_key as {name}")


HEADERS: dict[str, dict[str, Any]] = {
    "a path": {"kid": "../../../../dev/null"},
    "a device": {"kid": "/dev/zero"},
    "a query": {"kid": "x' UNION SELECT 'secret'; --"},
    "a command": {"kid": "|touch /tmp/x"},
    "a very long key id": {"kid": "k" * 3000},
    "an object": {"kid": {"$ne": ""}},
    "a set of keys": {"jku": "https://attacker.example/keys"},
    "a set of keys of this machine": {"jku": "http://127.0.0.1:9/keys"},
    "a certificate at an address": {"x5u": "https://attacker.example/cert"},
    "a file": {"jku": "file:///etc/passwd", "x5u": "file:///etc/passwd"},
    "a key of its own": {"jwk": json.loads(as_jwk(OTHERS.public_key()))},
    "a chain of its own": {"x5c": ["MIIB"]},
}


@pytest.mark.parametrize("name", HEADERS)
async def test_a_header_leads_to_no_key_file_or_address(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []

    class NoKeys:
        """Keys of an issuer, none of which has the id that a token names."""

        def key(self, key_id: str) -> Any:
            fetched.append(key_id)
            raise AuthenticationFailed("no such key")

    def touch(*args: Any, **named: Any) -> Any:
        raise AssertionError(f"a token made the provider open {args}")

    claims = {"sub": SUPERUSER, "iss": ISSUER, "aud": "a", "iat": NOW_S, "exp": NOW_S + 9}
    header = {"alg": "RS256", **HEADERS[name]}
    text = f"{part(header)}.{part(claims)}"
    forged = f"{text}.{encoded(RsaPrivateKey(OTHERS).sign('RS256', text.encode()))}"
    oidc = OidcProvider({ISSUER: NoKeys()}, frozenset({"a"}), lambda: NOW_S)  # type: ignore[dict-item]
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", touch)
        patched.setattr(Path, "open", touch)
        patched.setattr(socket, "socket", touch)
        patched.setattr(socket, "getaddrinfo", touch)
        assert_refused(forged, KEYS["RSA"])
        with pytest.raises(AuthenticationFailed):
            checked = oidc.authenticate(Presented(forged.encode()))
            if isinstance(checked, Awaitable):
                await checked
    assert fetched in ([], [HEADERS[name].get("kid", "")], [""])


TIMES: dict[str, str] = {
    "an end in the past": '{"exp": 1}',
    "an end below zero": '{"exp": -1}',
    "an end far below zero": '{"exp": -1e308}',
    "an end that is a text": '{"exp": "9999999999"}',
    "an end that is true": '{"exp": true}',
    "an end that is a list": '{"exp": [9999999999]}',
    "an end that is nothing": '{"exp": null}',
    "an end without limit": '{"exp": Infinity}',
    "an end that is no number": '{"exp": NaN}',
    "an end beyond numbers": '{"exp": 1e309}',
    "an end of many digits": '{"exp": ' + "9" * 4000 + "}",
    "an end of too many digits": '{"exp": ' + "9" * 20_000 + "}",
    "a start in the future": '{"nbf": 1700000001}',
    "a start that is false": '{"nbf": false}',
    "a start at the end of time": '{"nbf": 1e308}',
}


@pytest.mark.parametrize("name", TIMES)
def test_a_time_that_is_over_to_come_or_no_time_refuses_the_token(name: str) -> None:
    claims = TIMES[name].replace("{", f'{{"sub": "{SUPERUSER}", ', 1)
    assert_refused(signed({"alg": "HS256"}, claims))


SUBJECTS: dict[str, Any] = {
    "missing": {},
    "nothing": {"sub": None},
    "empty": {"sub": ""},
    "blank": {"sub": " \t\n"},
    "a number": {"sub": 7},
    "a truth": {"sub": True},
    "an object": {"sub": {"role": SUPERUSER}},
    "an empty list": {"sub": []},
    "a list in a list": {"sub": [[SUPERUSER]]},
    "a long text": {"sub": "s" * 65_536},
    "half of a character": {"sub": f"{SUPERUSER}\ud800"},
    "half of a character in a list": {"sub": ["\udc00"]},
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_subject_that_is_no_role_refuses_the_token(name: str) -> None:
    assert_refused(signed({"alg": "HS256"}, SUBJECTS[name]))


@pytest.mark.parametrize(
    "subject",
    [
        f"{SUPERUSER}\x00",
        f"\x00{SUPERUSER}",
        f" {SUPERUSER}",
        f"{SUPERUSER} ",
        SUPERUSER.upper(),
        "r\u043e\u043et",  # Cyrillic letters
        "\uff52\uff4f\uff4f\uff54",  # full width
        "ro\u200bot",
        "\u202etoor",
        "roo\u0074\u0301",
    ],
)
async def test_a_role_that_looks_like_another_has_none_of_its_rights(subject: str) -> None:
    given = role(signed({"alg": "HS256"}, {"sub": subject}))
    assert given == subject
    judge = await stored_judge()
    for identity, allowed in ((Identity(SUPERUSER), True), (Identity(given), False)):
        judgement = judge.judge(identity, Action.SUPERUSER, CLUSTER)
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        assert verdict.allowed == allowed


@pytest.mark.parametrize(
    "audience",
    [None, "", "you", "me ", "ME", "me\x00", "m\u0435", ["you"], [], {"me": 1}, ["you", ["me"]], 1],
)
def test_a_token_for_another_audience_is_refused(audience: Any) -> None:
    given = {"audience_claim": "aud", "audience": "me"}
    assert role(signed({"alg": "HS256"}, {"sub": "app", "aud": "me"}), **given) == "app"
    assert_refused(signed({"alg": "HS256"}, {"sub": "app", "aud": audience}), **given)


def test_an_encrypted_token_is_refused_before_it_is_inflated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refuse JWE, whose five parts may hold a payload that inflates to gigabytes."""

    def inflate(*args: Any, **named: Any) -> Any:
        raise AssertionError("inflated")

    bomb = encoded(zlib.compress(bytes(10 << 20), 9))
    monkeypatch.setattr(zlib, "decompress", inflate)
    monkeypatch.setattr(zlib, "decompressobj", inflate)
    header = part({"alg": "dir", "enc": "A256GCM", "zip": "DEF"})
    assert_refused(f"{header}..{encoded(bytes(12))}.{bomb}.{encoded(bytes(16))}")
    zipped = {"alg": "HS256", "zip": "DEF"}
    text = f"{part(zipped)}.{bomb}"
    assert_refused(f"{text}.{encoded(hmac.digest(SECRET, text.encode(), 'sha256'))}")


def test_a_signature_is_compared_in_a_time_that_does_not_depend_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pass the whole of both signatures to the comparison that is made for secrets, wherever they differ."""
    compared: list[tuple[int, int]] = []

    def compare(own: bytes, given: bytes) -> bool:
        compared.append((len(own), len(given)))
        return hmac.compare_digest(own, given)

    class Compared:
        compare_digest = staticmethod(compare)
        digest = staticmethod(hmac.digest)

    monkeypatch.setattr(signing_keys, "hmac", Compared)
    good = signed({"alg": "HS256"}, {"sub": "app"})
    text, _, signature = good.rpartition(".")
    raw = jws.decode_base64url(signature)
    for wrong in (bytes([raw[0] ^ 1]) + raw[1:], raw[:-1] + bytes([raw[-1] ^ 1]), bytes(32)):
        assert_refused(f"{text}.{encoded(wrong)}")
    assert role(good) == "app"
    assert compared == [(32, 32)] * 4


def test_one_key_has_no_algorithms_of_another_kind() -> None:
    by_kind = {name: {algorithm[:2] for algorithm in key.algorithms} for name, key in KEYS.items()}
    assert by_kind == {"secret": {"HS"}, "RSA": {"RS", "PS"}, "EC": {"ES"}}
    pem = encodings(RSA.public_key())["PEM"]
    loaded = verification_key(f"data:;base64,{base64.b64encode(pem).decode()}", "key")
    signer: SigningKey = SecretKey(SECRET)
    assert not set(loaded.algorithms) & set(signer.algorithms)
