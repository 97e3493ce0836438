"""An OpenID Connect issuer in a thread, which clients of the grant ``client_credentials`` get their tokens from."""

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import rsa

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import RsaPrivateKey
from tests.support.ports import free_ports

AUDIENCE = "pulsar"
SECRET = "of the client"


class Issuer:
    """An issuer on a port that stays, stopped at first. Every client id has the secret ``SECRET`` and is a role.

    ``granted`` has the form of each request that got a token.
    """

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.granted: list[dict[str, str]] = []
        self._server: ThreadingHTTPServer | None = None

    def settings(self) -> dict[str, str]:
        """Return the settings of a program that accepts its tokens, besides the list of providers."""
        return {
            "open_id_allowed_token_issuers": self.url,
            "open_id_allowed_audiences": AUDIENCE,
            "open_id_require_issuers_use_https": "false",
        }

    def token(self, role: str, life_s: float = 600.0) -> str:
        """Return a token of this role."""
        now_s = time.time()
        claims = {"iss": self.url, "sub": role, "aud": AUDIENCE, "iat": now_s}
        claims["exp"] = now_s + life_s
        return jws.sign(claims, RsaPrivateKey(self._key), "RS256", {"kid": "k"})

    def start(self) -> None:
        """Serve documents and tokens."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, issuer._document(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self._send(*issuer._grant(body.decode()))

            def _send(self, status: int, document: Mapping[str, Any]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections until the next ``start``."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _document(self, path: str) -> Mapping[str, Any]:
        if path != "/keys":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
            }
        numbers = self._key.public_key().public_numbers()
        values = {
            name: base64.urlsafe_b64encode(value.to_bytes(256, "big").lstrip(b"\0")).decode()
            for name, value in (("n", numbers.n), ("e", numbers.e))
        }
        return {"keys": [{"kty": "RSA", "kid": "k", **values}]}

    def _grant(self, body: str) -> tuple[int, Mapping[str, Any]]:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if form.get("client_secret") != SECRET:
            return 401, {"error": "invalid_client"}
        self.granted.append(form)
        token = self.token(form["client_id"])
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 600}
