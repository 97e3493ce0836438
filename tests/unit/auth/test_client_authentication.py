"""Authentication of a broker's clients by its settings, and the documents of issuers by its HTTP client."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from engine.auth.authenticators import jws
from engine.auth.authenticators.provider import ProviderError
from engine.auth.authenticators.signing_keys import RsaPrivateKey, SecretKey
from engine.auth.credentials import AuthenticationFailed, Credentials
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.settings import (
    AuthenticationSettings,
    IdentitySettings,
    OpenIdSettings,
    TokenSettings,
)
from engine.base.clock import SystemClock
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from engine.rpc.client_authentication import ClientAuthentication

SECRET = bytes(32)
RSA = rsa.generate_private_key(65537, 2048)
BY_TOKEN = IdentitySettings(
    AuthenticationSettings(
        authentication_enabled=True,
        authentication_providers="org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    ),
    TokenSettings(token_secret_key=base64.b64encode(SECRET).decode()),
)


def made(settings: IdentitySettings) -> ClientAuthentication:
    return ClientAuthentication(settings, LoopNetwork(), SystemClock())


async def test_every_client_is_accepted_without_authentication() -> None:
    authentication = made(IdentitySettings())
    assert authentication.authenticate(Credentials("none", b"")) == UNAUTHENTICATED
    assert authentication.of_request is None
    await authentication.close()


async def test_clients_and_callers_are_identified_by_the_same_providers() -> None:
    authentication = made(BY_TOKEN)
    token = jws.sign({"sub": "app"}, SecretKey(SECRET), "HS256")
    identity = Identity("app", None, "token")
    assert authentication.authenticate(Credentials("token", token.encode())) == identity
    assert authentication.of_request is not None
    headers = {"authorization": f"Bearer {token}"}
    assert authentication.of_request(Request("GET", "/", "", headers, b"")) == identity
    with pytest.raises(AuthenticationFailed):
        authentication.of_request(Request("GET", "/", "", {}, b""))
    assert sum(authentication.outcomes.succeeded.values()) == 2


async def test_a_provider_without_its_settings_does_not_start() -> None:
    with pytest.raises(ProviderError, match="No secret key was provided"):
        made(IdentitySettings(BY_TOKEN.general))


async def test_the_keys_of_an_issuer_are_fetched_over_http() -> None:
    numbers = RSA.public_key().public_numbers()
    key = {"kty": "RSA", "kid": "k"} | {
        name: base64.urlsafe_b64encode(value.to_bytes(256, "big").lstrip(b"\0")).decode()
        for name, value in (("n", numbers.n), ("e", numbers.e))
    }
    pages: dict[str, object] = {"/keys": {"keys": [key]}}

    async def answer(request: Request) -> Response:
        page = pages.get(request.path)
        return json_response(404, {}) if page is None else json_response(200, page)

    server = HttpServer(LoopNetwork(), answer, connections_max=5)
    issuer = f"http://127.0.0.1:{await server.listen('127.0.0.1', 0)}"
    authentication = made(
        IdentitySettings(
            AuthenticationSettings(authentication_enabled=True, authentication_providers="oidc"),
            open_id=OpenIdSettings(
                open_id_allowed_token_issuers=f"{issuer}, {issuer}/missing",
                open_id_allowed_audiences="pulsar",
                open_id_require_issuers_use_https=False,
            ),
        )
    )
    pages["/.well-known/openid-configuration"] = {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
    now_s = SystemClock().wall_ms() / 1000

    async def role(claimed: str) -> str | None:
        claims = {"iss": claimed, "sub": "app", "aud": "pulsar", "iat": now_s, "exp": now_s + 60}
        token = jws.sign(claims, RsaPrivateKey(RSA), "RS256", {"kid": "k"})
        verdict = authentication.authenticate(Credentials("token", token.encode()))
        identity = verdict if isinstance(verdict, Identity) else await verdict  # type: ignore[misc]
        assert isinstance(identity, Identity)
        return identity.role

    assert await role(issuer) == "app"
    with pytest.raises(AuthenticationFailed) as refused:
        await role(f"{issuer}/missing")
    assert "404" in refused.value.reason
    await authentication.close()
    await server.close()
