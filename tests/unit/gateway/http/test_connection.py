"""Requests through proxies: which headers count, and what answers to requests by TLS have."""

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from engine.base.addresses import ip_networks
from gateway.http import exchange
from gateway.http.connection import certificate_of, forwarded, through_proxies
from gateway.http.security import require_https

PROXIES = ip_networks("10.0.0.0/8, 127.0.0.1")


def scope(peer: str, *headers: tuple[str, str], kind: str = "http") -> dict[str, Any]:
    return {
        "type": kind,
        "scheme": "http" if kind == "http" else "ws",
        "client": (peer, 40_000),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("10.1.1.1", "192.0.2.7", "192.0.2.7"),
        # What the client writes itself is to the left.
        ("10.1.1.1", "198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("10.1.1.1", "192.0.2.7, 10.2.2.2", "192.0.2.7"),
        ("127.0.0.1", "10.2.2.2", "10.2.2.2"),
        ("127.0.0.1", "192.0.2.7, unknown", "127.0.0.1"),
        ("127.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("192.0.2.9", "127.0.0.1", "192.0.2.9"),
    ],
)
def test_the_client_is_the_first_address_that_no_proxy_has(
    peer: str, forwarded_for: str, client: str
) -> None:
    given = scope(peer, ("x-forwarded-for", forwarded_for))
    assert forwarded(given, PROXIES)["client"][0] == client


@pytest.mark.parametrize(
    ("peer", "proto", "kind", "scheme"),
    [
        ("10.1.1.1", "https", "http", "https"),
        ("10.1.1.1", "https", "websocket", "wss"),
        ("10.1.1.1", "https, http", "http", "http"),
        ("192.0.2.9", "https", "http", "http"),
    ],
)
def test_the_scheme_counts_from_named_proxies_alone(
    peer: str, proto: str, kind: str, scheme: str
) -> None:
    given = scope(peer, ("x-forwarded-proto", proto), kind=kind)
    assert forwarded(given, PROXIES)["scheme"] == scheme


def test_without_named_proxies_nothing_is_changed() -> None:
    async def application(*_: Any) -> None: ...

    assert through_proxies(application, ()) is application


def test_a_certificate_is_that_of_the_connection() -> None:
    assert certificate_of(scope("10.1.1.1")) is None
    shown = {"extensions": {"tls": {"certificate": {"subject": ()}}}}
    assert certificate_of(shown) == {"subject": ()}


@pytest.mark.parametrize(
    ("scheme", "host", "required"),
    [
        ("https", "127.0.0.1:8443", True),
        ("https", "localhost:8443", False),
        ("https", "foreign.example", False),
        ("http", "127.0.0.1:8080", False),
    ],
)
def test_an_answer_by_https_makes_browsers_use_https_for_the_host(
    scheme: str, host: str, required: bool
) -> None:
    request = HttpRequest()
    request.META["HTTP_HOST"] = host
    request._get_scheme = lambda: scheme  # type: ignore[method-assign]
    answer = HttpResponse()
    require_https(request, answer)
    assert answer.has_header("Strict-Transport-Security") is required


@pytest.mark.parametrize("secure", [True, False])
async def test_cookies_of_answers_by_tls_are_for_tls_alone(secure: bool) -> None:
    answer = HttpResponse()
    answer.set_cookie("sessionid", "x")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await exchange.send_answer(answer, send, head=False, secure=secure)
    (cookie,) = [value for name, value in sent[0]["headers"] if name == b"Set-Cookie"]
    assert (b"Secure" in cookie) is secure
