"""Identification of clients: methods, the anonymous role, proxies, and one text for every refusal."""

import logging
from collections.abc import Awaitable
from typing import Any

import pytest

from engine.auth.authentication import Authentication, Outcomes, Roles
from engine.auth.authenticators.provider import Authenticated, Check, Presented
from engine.auth.credentials import AuthenticationFailed, Credentials, RolesRefused
from engine.auth.identity import Identity


class Passwords:
    """A provider that accepts ``role:good``, until the time given behind a second colon; ``slow`` answers later."""

    key_ids: tuple[str, ...] = ()
    files = ()

    def __init__(
        self, method: str = "basic", password: str = "good", *, slow: bool = False
    ) -> None:
        self.name = f"Provider{method.title()}"
        self.method = method
        self.asked: list[bytes] = []
        self._password = password
        self._slow = slow

    def revision(self) -> object:
        return None

    def authenticate(self, presented: Presented) -> Check:
        self.asked.append(presented.data)
        return self._later(presented.data) if self._slow else self._check(presented.data)

    async def _later(self, data: bytes) -> Authenticated:
        return self._check(data)

    def _check(self, data: bytes) -> Authenticated:
        role, _, rest = data.decode().partition(":")
        password, _, end = rest.partition(":")
        if password != self._password:
            kind = "EXPIRED_JWT" if password == "old" else "UNKNOWN"
            raise AuthenticationFailed(f"not {self._password}", kind)
        return Authenticated(role, float(end) if end else None)


PROXIES = Roles(proxies=frozenset({"proxy", "gate"}), judge_proxies=True)


async def identify(
    authentication: Authentication, method: str, data: bytes, *, http: bool = False, **given: Any
) -> Identity:
    credentials = Credentials(method, data, address="1.2.3.4:5", **given)
    ask = authentication.of_request if http else authentication
    identity = ask(credentials)
    return await identity if isinstance(identity, Awaitable) else identity


@pytest.mark.parametrize("slow", [False, True])
async def test_the_provider_of_the_method_decides(slow: bool) -> None:
    authentication = Authentication(
        [Passwords("basic", slow=slow), Passwords("token", "key", slow=slow)], Roles()
    )
    assert await identify(authentication, "basic", b"app:good:9") == Identity(
        "app", None, "basic", 9.0
    )
    assert (await identify(authentication, "token", b"app:key")).method == "token"
    with pytest.raises(AuthenticationFailed):
        await identify(authentication, "token", b"app:good")
    assert authentication.outcomes.succeeded == {
        ("ProviderBasic", "basic"): 1,
        ("ProviderToken", "token"): 1,
    }
    assert authentication.outcomes.failed == {("ProviderToken", "token", "UNKNOWN"): 1}


@pytest.mark.parametrize("slow", [False, True])
async def test_providers_of_one_method_are_tried_in_order(slow: bool) -> None:
    first, second = Passwords("token", "one", slow=slow), Passwords("token", "two")
    authentication = Authentication([first, second], Roles())
    assert (await identify(authentication, "token", b"a:two")).role == "a"
    assert (await identify(authentication, "token", b"b:one")).role == "b"
    assert (first.asked, second.asked) == ([b"a:two", b"b:one"], [b"a:two"])
    with pytest.raises(AuthenticationFailed) as refused:
        await identify(authentication, "token", b"a:three")
    assert refused.value.reason == "not two"


@pytest.mark.parametrize("method", ["none", "", "nonsense", "tls"])
async def test_a_method_without_a_provider_is_anonymous_or_refused(method: str) -> None:
    providers = [Passwords("token")]
    open_to_all = Authentication(providers, Roles(anonymous="guest"))
    assert (await identify(open_to_all, method, b"x")).role == "guest"
    with pytest.raises(AuthenticationFailed, match="Failed to authenticate"):
        await identify(open_to_all, "token", b"x")
    with pytest.raises(AuthenticationFailed, match="Failed to authenticate"):
        await identify(Authentication(providers, Roles()), method, b"x")


async def test_the_reason_of_a_refusal_is_logged_without_the_credentials(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outcomes = Outcomes()
    authentication = Authentication([Passwords()], Roles(), outcomes)
    with caplog.at_level(logging.DEBUG), pytest.raises(AuthenticationFailed):
        await identify(authentication, "basic", b"app:old")
    assert "1.2.3.4:5" in caplog.text
    assert "not good" in caplog.text
    assert "app:old" not in caplog.text
    assert outcomes.expired == 1
    assert "app:old" not in repr(Credentials("basic", b"app:old", original_data=b"app:old"))


ROLES: list[tuple[str, dict[str, Any], str | None]] = [
    ("app", {}, None),
    ("proxy", {"original_principal": "user"}, "user"),
    ("proxy", {"original_principal": "user", "proxy_version": "4"}, "user"),
]
BAD_ROLES: list[tuple[str, dict[str, Any], str]] = [
    ("proxy", {}, "Invalid roles."),
    ("proxy", {"original_principal": "proxy"}, "Invalid roles."),
    ("proxy", {"original_principal": "gate"}, "Invalid roles."),
    ("app", {"original_principal": "user"}, "Invalid roles."),
    ("app", {"original_principal": "app"}, "Invalid roles."),
    ("app", {"original_principal": "proxy"}, "Invalid roles."),
    ("app", {"proxy_version": "4"}, "Must not set proxyVersion without connecting as a ProxyRole."),
]


@pytest.mark.parametrize(("role", "given", "original"), ROLES)
async def test_a_proxy_names_the_client_for_which_it_acts(
    role: str, given: dict[str, Any], original: str | None
) -> None:
    authentication = Authentication([Passwords()], PROXIES)
    identity = await identify(authentication, "basic", f"{role}:good".encode(), **given)
    assert (identity.role, identity.original) == (role, original)


@pytest.mark.parametrize(("role", "given", "text"), BAD_ROLES)
async def test_roles_that_do_not_go_together_are_refused(
    role: str, given: dict[str, Any], text: str
) -> None:
    data = f"{role}:good".encode()
    with pytest.raises(RolesRefused) as refused:
        await identify(Authentication([Passwords()], PROXIES), "basic", data, **given)
    assert str(refused.value) == text
    without_rights = PROXIES._replace(judge_proxies=False)
    assert await identify(Authentication([Passwords()], without_rights), "basic", data, **given)


async def test_a_caller_by_http_may_name_itself() -> None:
    authentication = Authentication([Passwords()], PROXIES)
    own = await identify(authentication, "basic", b"app:good", http=True, original_principal="app")
    assert (own.role, own.original) == ("app", None)
    for role, principal in (("app", "user"), ("proxy", None), ("proxy", "gate")):
        data = f"{role}:good".encode()
        with pytest.raises(RolesRefused):
            await identify(authentication, "basic", data, http=True, original_principal=principal)
    by_proxy = await identify(
        authentication, "basic", b"proxy:good", http=True, original_principal="user"
    )
    assert (by_proxy.role, by_proxy.original) == ("proxy", "user")


@pytest.mark.parametrize("slow", [False, True])
async def test_forwarded_credentials_are_checked_and_decide_the_original_role(slow: bool) -> None:
    providers = [Passwords(), Passwords("token", slow=slow)]
    authentication = Authentication(providers, PROXIES._replace(check_original=True))
    forwarded = {"original_principal": "claimed", "original_method": "token"}
    identity = await identify(
        authentication, "basic", b"proxy:good:7", **forwarded, original_data=b"user:good:9"
    )
    assert identity == Identity("proxy", "user", "basic", 9.0, "token")
    for data in (b"user:bad", None):
        with pytest.raises(AuthenticationFailed):
            await identify(authentication, "basic", b"proxy:good", **forwarded, original_data=data)
    unchecked = Authentication(providers, PROXIES)
    identity = await identify(
        unchecked, "basic", b"proxy:good:7", **forwarded, original_data=b"user:bad"
    )
    assert identity == Identity("proxy", "claimed", "basic", 7.0)
