"""Credentials of HTTP requests."""

import base64

import pytest

from engine.auth.credentials import AuthenticationFailed
from engine.auth.http_credentials import credentials_of

METHODS = frozenset({"token", "basic", "tls"})
CERTIFICATE = {"subject": ((("commonName", "app"),),)}
BASIC = f"Basic {base64.b64encode(b'user:pass:word').decode()}"


@pytest.mark.parametrize(
    ("headers", "certificate", "method", "data"),
    [
        ({}, False, "none", b""),
        ({"authorization": " "}, False, "none", b""),
        ({"authorization": "Bearer a.b.c"}, False, "token", b"a.b.c"),
        ({"authorization": BASIC}, False, "basic", b"user:pass:word"),
        ({}, True, "tls", b""),
        ({"authorization": "Bearer bad"}, True, "token", b"bad"),
        (
            {"authorization": "Bearer a", "x-pulsar-auth-method-name": "token"},
            True,
            "token",
            b"a",
        ),
        ({"authorization": "Bearer a", "x-pulsar-auth-method-name": "tls"}, True, "tls", b""),
    ],
)
def test_the_presented_credentials_decide_the_method(
    headers: dict[str, str], certificate: bool, method: str, data: bytes
) -> None:
    given = credentials_of(headers, CERTIFICATE if certificate else None, "1.2.3.4:5", METHODS)
    assert (given.method, given.data, given.address) == (method, data, "1.2.3.4:5")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"authorization": "bearer a.b.c"}, "Invalid HTTP Authorization header"),
        ({"authorization": "Digest x"}, "Invalid HTTP Authorization header"),
        ({"authorization": "Basic !"}, "Invalid HTTP Authorization header"),
        ({"x-pulsar-auth-method-name": "sasl"}, "Unsupported authentication method: [sasl]."),
        ({"x-pulsar-auth-method-name": "token"}, "no credentials of the method"),
        (
            {"authorization": "Bearer a", "x-pulsar-auth-method-name": "basic"},
            "no credentials of the method",
        ),
    ],
)
def test_credentials_of_an_unknown_form_are_refused(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        credentials_of(headers, None, "", METHODS)
    assert refused.match("Failed to authenticate")
    assert reason in refused.value.reason


def test_a_certificate_counts_only_where_tls_is_a_method() -> None:
    assert credentials_of({}, CERTIFICATE, "", frozenset({"token"})).method == "none"


def test_the_header_names_the_client_for_which_a_proxy_acts() -> None:
    given = credentials_of({"x-original-principal": "user"}, None, "", METHODS)
    assert given.original_principal == "user"
