"""A secure instance with people and a provider of sign-ins, for browser tests of the console: one for all files."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from gateway.standalone.secure import SecureFiles
from tests.support.access.openid_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    OpenIdProvider,
    running_provider,
)
from tests.support.instance import Instance, complaints

PASSWORD = "correct-horse-7"
"""Password of all people of an instance."""
FAILURES_MAX = 3
"""Failed sign-ins of a name from an address before the gateway lets it wait."""
PROVIDER = "Corporate"
"""Title of the provider of sign-ins."""
GROUPS_ROLES = "ops=acme-admin:operate; billing=globex-admin:full"
"""Roles of the provider's groups, in their order."""
PROVOKED = (
    r"no person exists yet",
    r"sign-in (refused|failed)",
    r"the supervisor did not start a worker: redis,",
    r"jobs\.warm\(\) could not be sent to Celery",
    r"path=/api/v1/session/sign-in error=OperationalError\('database is locked'\)",
)
"""Log lines of what the tests do on purpose."""


class SecureInstance:
    """An instance with TLS, authentication and authorization; ``url`` is that of its console."""

    def __init__(self, instance: Instance, provider: OpenIdProvider) -> None:
        self.instance = instance
        self.provider = provider
        self.url = f"https://127.0.0.1:{instance.ports['HTTPS']}"
        files = SecureFiles(instance.data_dir)
        self._tls = ssl.create_default_context(cafile=str(files.authority))
        self._token = files.token("superuser").read_text().strip()

    @property
    def set_up_code(self) -> str:
        """The code by which the first person is created, as the gateway has written it."""
        return (self.instance.data_dir / "set-up-code").read_text().strip()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Answer a request of the superuser's token; raises HTTPError for a refusal."""
        return self._send(self._opener(), method, path, body, Authorization=f"Bearer {self._token}")

    def add_person(self, name: str, *roles: str) -> None:
        """Create a person with ``role:level`` each, with the password of all."""
        stored = [dict(zip(("role", "level"), role.split(":"), strict=True)) for role in roles]
        made = self.call("POST", "/api/v1/people", {"name": name, "roles": stored})
        given = {"name": name, "password": made["one_time_password"], "new_password": PASSWORD}
        jar = CookieJar()
        opener = self._opener(urllib.request.HTTPCookieProcessor(jar))
        self._send(opener, "GET", "/api/v1/session")
        for path, body in (("sign-in", given), ("sign-out", {})):
            token = next(cookie.value for cookie in jar if "csrf" in cookie.name) or ""
            fields = {"X-CSRFToken": token, "Referer": f"{self.url}/"}
            self._send(opener, "POST", f"/api/v1/session/{path}", body, **fields)

    def _opener(self, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=self._tls), *handlers
        )

    def _send(
        self,
        opener: urllib.request.OpenerDirector,
        method: str,
        path: str,
        body: Any = None,
        **fields: str,
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **fields}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with opener.open(request, timeout=20) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                error.msg += f": {error.read().decode(errors='replace')}"
            raise
        return json.loads(content) if content else None


@contextmanager
def secure_instance(data_dir: Path) -> Iterator[SecureInstance]:
    """Yield an instance to which no harm is done; fail at the end if a part complained of anything else."""
    with running_provider() as provider:
        instance = Instance(data_dir, secure=True, **_environment(provider))
        instance.start()
        # People, pages and pushes need no Redis; the pages of analyses would start Spark with it.
        instance.control("stop", "redis")
        try:
            yield SecureInstance(instance, provider)
        finally:
            instance.stop()
    if lines := complaints(data_dir, PROVOKED):
        raise AssertionError("parts of a healthy instance complained:\n" + "\n".join(lines[:50]))


def _environment(provider: OpenIdProvider) -> dict[str, str]:
    of_provider = {
        **{"TITLE": PROVIDER, "ISSUER": provider.issuer, "GROUPS_ROLES": GROUPS_ROLES},
        **{"CLIENT_ID": CLIENT_ID, "CLIENT_SECRET": CLIENT_SECRET},
    }
    return {
        "MAGNETAR_SIGN_IN_FAILURES_MAX": str(FAILURES_MAX),
        "MAGNETAR_SIGN_IN_PROVIDERS": "corp",
        **{f"MAGNETAR_PROVIDER_CORP_{name}": value for name, value in of_provider.items()},
    }
