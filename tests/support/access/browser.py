"""A browser at the gateway's console: it keeps cookies, and sends the CSRF token of the one that is for it."""

from http.cookies import SimpleCookie
from typing import Any

from tests.support.admin.gateway_client import Answer, Gateway

API = "/api/v1/"
PASSWORD = "correct-horse-7"


class Browser:
    """A call of it is one request to the console's API."""

    def __init__(self, gateway: Gateway, address: str = "127.0.0.1") -> None:
        self.gateway = gateway
        self.address = address
        self.cookies: dict[str, str] = {}

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        csrf: bool = True,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Answer a request with ``path`` below the API, or an absolute one."""
        fields = {"user-agent": "Browser 1", **(headers or {})}
        if self.cookies:
            fields["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if csrf and "csrftoken" in self.cookies:
            fields["x-csrftoken"] = self.cookies["csrftoken"]
        target = path if path.startswith("/") else API + path
        answer = self.gateway(method, target, body, headers=fields, client=self.address)
        for text in answer.cookies:
            for name, cookie in SimpleCookie(text).items():
                if cookie["max-age"] == "0" or cookie.value == "":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = cookie.value
        return answer

    def sign_in(self, name: str, password: str = PASSWORD, **more: str) -> Answer:
        """Read the session, which sets the CSRF cookie, and sign in."""
        self("GET", "session")
        return self("POST", "session/sign-in", {"name": name, "password": password, **more})

    @property
    def person(self) -> Any:
        """The person of the session, as the console knows it; None without one."""
        return self("GET", "session").json["person"]
