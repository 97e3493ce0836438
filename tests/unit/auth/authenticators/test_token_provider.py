"""Signed tokens: which are accepted, and that nothing else is."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_texts import secret_key, signing_key, verification_key
from engine.auth.authenticators.provider import Authenticated, Presented, ProviderError
from engine.auth.authenticators.signing_keys import (
    EcPublicKey,
    SecretKey,
    SigningKey,
    VerificationKey,
)
from engine.auth.authenticators.token_provider import TokenProvider, token_provider
from engine.auth.credentials import AuthenticationFailed
from engine.auth.settings import SecondTokenSettings, TokenSettings

NOW_S = 1_700_000_000.0
SECRET = bytes(range(64))
RSA = rsa.generate_private_key(65537, 2048)
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
EC = {name: ec.generate_private_key(curve) for name, curve in CURVES.items()}
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def public_bytes(key: Private, encoding: Encoding = Encoding.DER) -> bytes:
    return key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)


def private_bytes(key: Private, encoding: Encoding = Encoding.DER) -> bytes:
    return key.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption())


def data_url(data: bytes) -> str:
    return f"data:;base64,{base64.b64encode(data).decode()}"


def pair(algorithm: str) -> tuple[SigningKey, VerificationKey]:
    if algorithm.startswith("HS"):
        return SecretKey(SECRET), SecretKey(SECRET)
    key = EC[algorithm] if algorithm.startswith("ES") else RSA
    signs = signing_key(data_url(private_bytes(key)), "key")
    return signs, verification_key(data_url(public_bytes(key)), "key")


def part(document: Any) -> str:
    text = document if isinstance(document, str) else json.dumps(document)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def forged(header: Any, claims: Any, secret: bytes = SECRET) -> str:
    """Return a token of any form with a valid signature of HS256."""
    signed = f"{part(header)}.{part(claims)}"
    signature = SecretKey(secret).sign("HS256", signed.encode())
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def token(claims: dict[str, Any], algorithm: str = "HS256") -> str:
    return jws.sign(claims, pair(algorithm)[0], algorithm)


def check(text: str | bytes, key: VerificationKey | None = None, **given: Any) -> Authenticated:
    provider = TokenProvider(key or SecretKey(SECRET), lambda: NOW_S, **given)
    return provider.authenticate(Presented(text.encode() if isinstance(text, str) else text))


@pytest.mark.parametrize(
    "algorithm",
    [f"{kind}{bits}" for kind in ("HS", "RS", "PS", "ES") for bits in (256, 384, 512)],
)
def test_a_token_signed_by_the_key_has_its_role_and_end(algorithm: str) -> None:
    signs, verifies = pair(algorithm)
    text = jws.sign({"sub": "app", "exp": NOW_S + 5}, signs, algorithm)
    assert check(text, verifies) == Authenticated("app", NOW_S + 5)


ACCEPTED = {
    "no end": ({"sub": "app"}, {}),
    "starts now": ({"sub": "app", "nbf": NOW_S}, {}),
    "issued in the future": ({"sub": "app", "iat": NOW_S + 1000}, {}),
    "array of roles": ({"sub": ["app", "other"]}, {}),
    "another claim": ({"sub": 5, "role": "app"}, {"claim": "role"}),
    "audience without a check": ({"sub": "app", "aud": "x"}, {}),
    "audience": ({"sub": "app", "aud": "me"}, {"audience_claim": "aud", "audience": "me"}),
    "audiences": ({"sub": "app", "aud": [1, "me"]}, {"audience_claim": "aud", "audience": "me"}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_valid_token_is_accepted(name: str) -> None:
    claims, given = ACCEPTED[name]
    assert check(token(claims), **given).role == "app"


AUDIENCE = {"audience_claim": "aud", "audience": "me"}
REFUSED: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "empty": ("", {}),
    "blank": ("  ", {}),
    "junk": ("junk", {}),
    "two parts": ("a.b", {}),
    "four parts": (token({"sub": "app"}) + ".x", {}),
    "not ASCII": ("tokén".encode(), {}),
    "not text": (b"\xff\xfe", {}),
    "huge": ("a" * 40_000, {}),
    "huge header": (f"{'a' * 5000}.{part({'sub': 'app'})}.x", {}),
    "padded": (token({"sub": "app"}) + "=", {}),
    "alphabet of other Base64": (token({"sub": "app"})[:-2] + "+/", {}),
    "signature cut": (token({"sub": "app"})[:-4], {}),
    "no signature": (token({"sub": "app"}).rpartition(".")[0] + ".", {}),
    "alg none": (f"{part({'alg': 'none'})}.{part({'sub': 'app'})}.", {}),
    "alg None": (f"{part({'alg': 'None'})}.{part({'sub': 'app'})}.", {}),
    "alg none with a valid signature": (forged({"alg": "none"}, {"sub": "app"}), {}),
    "no alg": (forged({}, {"sub": "app"}), {}),
    "alg is a number": (forged({"alg": 256}, {"sub": "app"}), {}),
    "alg is of other keys": (forged({"alg": "RS256"}, {"sub": "app"}), {}),
    "critical extension": (forged({"alg": "HS256", "crit": ["b64"]}, {"sub": "app"}), {}),
    "another secret": (forged({"alg": "HS256"}, {"sub": "app"}, b"x" * 64), {}),
    "header is an array": (forged([{"alg": "HS256"}], {"sub": "app"}), {}),
    "claims are an array": (forged({"alg": "HS256"}, ["sub"]), {}),
    "claims are no JSON": (forged({"alg": "HS256"}, "{'sub': 'app'}"), {}),
    "deep claims": (forged({"alg": "HS256"}, "[" * 10_000), {}),
    "infinite end": (forged({"alg": "HS256"}, '{"sub":"app","exp":Infinity}'), {}),
    "end beyond numbers": (forged({"alg": "HS256"}, '{"sub":"app","exp":1e999}'), {}),
    "end is a huge number": (forged({"alg": "HS256"}, f'{{"sub":"app","exp":{"9" * 400}}}'), {}),
    "end is a text": (token({"sub": "app", "exp": str(NOW_S + 9)}), {}),
    "start is a truth": (token({"sub": "app", "nbf": True}), {}),
    "end is null": (token({"sub": "app", "exp": None}), {}),
    "expired": (token({"sub": "app", "exp": NOW_S - 1}), {}),
    "ends now": (token({"sub": "app", "exp": NOW_S}), {}),
    "not valid yet": (token({"sub": "app", "nbf": NOW_S + 1}), {}),
    "no role": (token({"name": "app"}), {}),
    "role is a number": (token({"sub": 5}), {}),
    "role is empty": (token({"sub": ""}), {}),
    "role is blank": (token({"sub": " "}), {}),
    "no role in the array": (token({"sub": []}), {}),
    "array of numbers": (token({"sub": [5, "app"]}), {}),
    "no audience": (token({"sub": "app"}), AUDIENCE),
    "another audience": (token({"sub": "app", "aud": "you"}), AUDIENCE),
    "other audiences": (token({"sub": "app", "aud": ["you", 1]}), AUDIENCE),
    "audience is an object": (token({"sub": "app", "aud": {"me": 1}}), AUDIENCE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_token_is_refused_for_a_reason_without_its_text(name: str) -> None:
    text, given = REFUSED[name]
    with pytest.raises(AuthenticationFailed, match=r"^Failed to authenticate$") as refused:
        check(text, **given)
    shown = text if isinstance(text, str) else text.decode("latin-1")
    assert refused.value.reason
    assert len(shown) < 5 or shown not in refused.value.reason
    assert all(len(piece) < 9 or piece not in refused.value.reason for piece in shown.split("."))


@pytest.mark.parametrize("encoding", [Encoding.DER, Encoding.PEM])
def test_a_public_key_is_no_secret(encoding: Encoding) -> None:
    public = public_bytes(RSA, encoding)
    confused = forged({"alg": "HS256"}, {"sub": "admin"}, public)
    with pytest.raises(AuthenticationFailed):
        check(confused, verification_key(data_url(public), "key"))
    with pytest.raises(ProviderError, match="token_secret_key is a public or private key"):
        secret_key(data_url(public), "token_secret_key")


@pytest.mark.parametrize(("signed_by", "checked_by"), [("ES256", "ES384"), ("RS256", "ES256")])
def test_a_key_verifies_its_own_algorithms_alone(signed_by: str, checked_by: str) -> None:
    text = token({"sub": "app"}, signed_by)
    with pytest.raises(AuthenticationFailed):
        check(text, pair(checked_by)[1])


def test_a_short_secret_verifies_no_longer_hashes() -> None:
    short = SECRET[:32]
    assert check(jws.sign({"sub": "a"}, SecretKey(short), "HS256"), SecretKey(short)).role == "a"
    longer = SecretKey(SECRET).sign("HS512", b"data")
    assert longer
    with pytest.raises(ValueError, match="HS256"):
        SecretKey(short).sign("HS512", b"data")
    with pytest.raises(ValueError, match="at least 256 bits"):
        SecretKey(SECRET[:31])


RFC_CLAIMS = (
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)
RFC_SECRET = (
    "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
)
RFC_POINT = (
    "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
)


def test_the_examples_of_rfc_7515_are_verified() -> None:
    by_secret = (
        f"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{RFC_CLAIMS}."
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    assert jws.verify(jws.parse(by_secret), SecretKey(jws.decode_base64url(RFC_SECRET)))
    by_curve = (
        f"eyJhbGciOiJFUzI1NiJ9.{RFC_CLAIMS}."
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    x, y = (int.from_bytes(jws.decode_base64url(number), "big") for number in RFC_POINT)
    point = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    assert jws.verify(jws.parse(by_curve), EcPublicKey(point))["iss"] == "joe"


# Settings


def made(**given: str) -> TokenProvider:
    return token_provider(TokenSettings(**given), lambda: NOW_S)


def test_a_key_is_taken_from_each_form_that_names_it(tmp_path: Path) -> None:
    raw, pem = tmp_path / "key.der", tmp_path / "key.pem"
    raw.write_bytes(public_bytes(RSA))
    pem.write_bytes(public_bytes(RSA, Encoding.PEM))
    signed = token({"sub": "app"}, "RS256").encode()
    for text in (
        f"file://{raw}",
        f"file:{pem}",
        str(pem),
        data_url(public_bytes(RSA)),
        base64.b64encode(public_bytes(RSA)).decode(),
    ):
        assert made(token_public_key=text).authenticate(Presented(signed)).role == "app"


def test_the_secret_takes_precedence_over_the_public_key() -> None:
    both = made(token_secret_key=data_url(SECRET), token_public_key=data_url(public_bytes(RSA)))
    assert both.authenticate(Presented(token({"sub": "app"}).encode())).role == "app"
    with pytest.raises(AuthenticationFailed):
        both.authenticate(Presented(token({"sub": "app"}, "RS256").encode()))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "No secret key was provided for token authentication"),
        ({"token_secret_key": "file:///nowhere/secret"}, "cannot read /nowhere/secret"),
        ({"token_secret_key": "file://host/secret"}, "file of another host"),
        ({"token_secret_key": "env:SECRET"}, "token_secret_key must be file:///path"),
        ({"token_secret_key": "data:no-comma"}, "without a comma"),
        ({"token_secret_key": data_url(b"short")}, "at least 256 bits"),
        ({"token_public_key": data_url(b"nonsense")}, "not a usable public key"),
        ({"token_public_key": data_url(private_bytes(RSA))}, "not a usable public key"),
        (
            {"token_public_key": data_url(public_bytes(RSA)), "token_public_alg": "ES256"},
            "token_public_alg ES256 is of another kind",
        ),
        (
            {"token_public_key": data_url(public_bytes(RSA)), "token_public_alg": "HS256"},
            "must be an algorithm of public keys",
        ),
        (
            {"token_secret_key": data_url(SECRET), "token_audience_claim": "aud"},
            "token_audience must be set",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ProviderError, match=reason) as refused:
        made(**given)
    values = [value for value in given.values() if value.startswith("data:;base64,")]
    assert not any(value.removeprefix("data:;base64,") in str(refused.value) for value in values)


def test_the_second_provider_has_settings_of_its_own() -> None:
    second = SecondTokenSettings(second_token_secret_key=data_url(SECRET))
    provider = token_provider(second, lambda: NOW_S)
    assert provider.authenticate(Presented(token({"sub": "app"}).encode())).role == "app"
    with pytest.raises(ProviderError, match="second_token_secret_key"):
        token_provider(SecondTokenSettings(), lambda: NOW_S)
