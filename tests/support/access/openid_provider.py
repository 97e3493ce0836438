"""A small provider of OpenID Connect: discovery, authorization by code with PKCE, tokens, keys, user info, end of
sessions. It confirms at once the person that the test has set. It can end at any request, and begin again."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import EcPrivateKey

CLIENT_ID, CLIENT_SECRET = "magnetar", "client secret+/"
Answer = tuple[int, dict[str, str], bytes]


def _number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(32, "big")).rstrip(b"=").decode()


class OpenIdProvider:
    """The provider. ``person`` has the claims of the one who signs in there; ``change`` is applied to each ID token."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {"sub": "1", "preferred_username": "ann", "name": "Ann"}
        self.user_info: dict[str, Any] = {}
        self.change: Callable[[dict[str, Any]], None] = lambda claims: None
        self.refuses = False
        self.breaks: str = ""
        """Path that is answered with 500."""
        self.dies: str = ""
        """Path at whose request the provider ends without an answer."""
        self.hangs: threading.Event | None = None
        """An event that token requests wait for; None for none."""
        self.asked: list[str] = []
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.signing_key = self.key
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers.get("content-length", "0"))))

            def _answer(self, body: bytes) -> None:
                if urlsplit(self.path).path == provider.dies:
                    provider.stop()
                    self.close_connection = True
                    return
                status, headers, content = provider._answer(self.path, dict(self.headers), body)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._handler = Handler
        self.server = self._listening(0)
        self.port: int = self.server.server_address[1]
        self.issuer = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread()

    def _listening(self, port: int) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", port), self._handler)
        server.daemon_threads = True
        return server

    def start(self) -> None:
        """Listen; after ``stop`` at the same port."""
        if self.server.socket.fileno() < 0:
            self.server = self._listening(self.port)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, as a provider that is away."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def _answer(self, target: str, headers: dict[str, str], body: bytes) -> Answer:
        path = urlsplit(target).path
        self.asked.append(path)
        if path == self.breaks:
            return 500, {}, b"broken"
        query = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
        form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        match path:
            case "/.well-known/openid-configuration":
                return _json(self._metadata())
            case "/keys":
                return _json({"keys": [self._public()]})
            case "/authorize":
                return self._authorize(query)
            case "/token":
                return self._token(form, headers)
            case "/end":
                return 302, {"Location": query["post_logout_redirect_uri"]}, b""
            case "/me":
                return _json({"sub": self.person["sub"], **self.user_info})
        return 404, {}, b""

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/me",
            "end_session_endpoint": f"{self.issuer}/end",
            "id_token_signing_alg_values_supported": ["none", "HS256", "ES256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def _public(self) -> dict[str, str]:
        point = self.key.public_key().public_numbers()
        shown = {"kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig", "alg": "ES256"}
        return {**shown, "x": _number(point.x), "y": _number(point.y)}

    def _authorize(self, query: dict[str, str]) -> Answer:
        back = {"state": query["state"]}
        if self.refuses:
            back["error"] = "access_denied"
        else:
            assert query["client_id"] == CLIENT_ID
            assert query["response_type"] == "code"
            assert query["code_challenge_method"] == "S256"
            assert "openid" in query["scope"].split()
            back["code"] = f"code-{len(self._codes)}"
            self._codes[back["code"]] = query
        return 302, {"Location": f"{query['redirect_uri']}?{urlencode(back)}"}, b""

    def _token(self, form: dict[str, str], headers: dict[str, str]) -> Answer:
        if self.hangs is not None:
            self.hangs.wait(30)
        begun = self._codes.pop(form["code"], None)
        secret = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            begun is None
            or headers.get("Authorization") != f"Basic {secret}"
            or begun["code_challenge"] != challenge
            or begun["redirect_uri"] != form["redirect_uri"]
        ):
            return 400, {"Content-Type": "application/json"}, b'{"error":"invalid_grant"}'
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": int(time.time()),
            "exp": int(time.time()) + 300,
            "nonce": begun["nonce"],
            **self.person,
        }
        self.change(claims)
        key = EcPrivateKey(self.signing_key)
        return _json(
            {
                "access_token": "an access token",
                "token_type": "Bearer",
                "id_token": jws.sign(claims, key, "ES256"),
            }
        )


def _json(value: Any) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


@contextmanager
def running_provider() -> Iterator[OpenIdProvider]:
    """Yield a provider that listens on loopback."""
    provider = OpenIdProvider()
    provider.start()
    try:
        yield provider
    finally:
        if provider.hangs is not None:
            provider.hangs.set()
        if provider._thread.is_alive():
            provider.stop()
