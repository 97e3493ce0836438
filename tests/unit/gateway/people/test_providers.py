"""Sign-in by a provider of OpenID Connect: the way there and back, proof of a person, roles of its groups."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from admin_ui.models import AuditEntry
from admin_ui.session.redirects import safe_path
from gateway.people.models import Person, PersonSession
from gateway.sign_in import ProviderSettings
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.failing_database import away
from tests.support.access.openid_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    OpenIdProvider,
    running_provider,
)
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.gateway.people.conftest import AddPerson

QUERIES_MAX = 60
RULES = "admins=root:full; ops=root:operate; cn=Billing,dc=x=billing:full; ops=ops:operate"


class Stay(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with running_provider() as running:
        running.person["groups"] = ["ops", "cn=Billing,dc=x"]
        yield running


@pytest.fixture
def described(provider: OpenIdProvider) -> ProviderSettings:
    return ProviderSettings(
        title="Corporate",
        issuer=provider.issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        groups_roles=RULES,
        name="corp",
    )


@pytest.fixture
def browser(door: Gateway, described: ProviderSettings, settings: Any) -> Browser:
    """A browser at a gateway that has the provider ``corp``."""
    settings.SIGN_IN = replace(settings.SIGN_IN, providers=(described,))
    return Browser(door)


def confirmed(url: str) -> str:
    """Open the provider's page; return the path to which it sends the browser back."""
    try:
        build_opener(Stay).open(url, timeout=10)
    except OSError as redirect:
        parts = urlsplit(redirect.headers["location"])  # type: ignore[attr-defined]
        return f"{parts.path}?{parts.query}"
    raise AssertionError("no redirect")


def begun(browser: Browser, next_path: str = "/") -> Answer:
    return browser("GET", f"/sign-in/corp?next={next_path}")


def came_back(browser: Browser, next_path: str = "/") -> Answer:
    """Sign in by the provider; return the last answer of the gateway."""
    answer = begun(browser, next_path)
    assert answer.status == 302, answer
    return browser("GET", confirmed(answer.headers["location"]))


def test_a_person_of_a_provider_signs_in_with_the_roles_of_its_groups(browser: Browser) -> None:
    [listed] = browser("GET", "session").json["providers"]
    assert listed == {"name": "corp", "title": "Corporate", "href": "/sign-in/corp"}
    answer = came_back(browser, "/c/standalone/topics?q=x")
    assert (answer.status, answer.headers["location"]) == (302, "/c/standalone/topics?q=x")
    person = browser.person
    assert (person["name"], person["display_name"], person["method"]) == ("ann", "Ann", "session")
    assert person["roles"] == [
        {"role": "root", "level": "operate"},
        {"role": "billing", "level": "full"},
        {"role": "ops", "level": "operate"},
    ]
    assert (person["role"], person["superuser"]) == ("root", False)
    assert person["may_change_password"] is False
    assert "sign-in" not in browser.cookies


def test_the_cookie_of_the_way_is_for_that_way_alone(browser: Browser) -> None:
    [cookie] = begun(browser).cookies
    assert {"HttpOnly", "SameSite=Lax", "Path=/sign-in/", "Max-Age=600"} < set(cookie.split("; "))


def test_a_sign_in_by_a_provider_is_in_the_audit_log_without_the_code(browser: Browser) -> None:
    came_back(browser)
    [entry] = AuditEntry.objects.all()
    shown = (entry.actor, entry.method, entry.target, entry.status)
    assert shown == ("ann", "GET", "/sign-in/corp/callback", 302)


def test_each_sign_in_renews_name_and_roles_of_the_same_person(
    browser: Browser, provider: OpenIdProvider
) -> None:
    came_back(browser)
    provider.person |= {"groups": "admins", "name": "Ann B", "preferred_username": "annb"}
    came_back(browser)
    person = browser.person
    assert (person["name"], person["display_name"], person["superuser"]) == ("ann", "Ann B", True)
    assert Person.objects.count() == 1


def test_groups_without_a_role_are_refused(browser: Browser, provider: OpenIdProvider) -> None:
    for groups in ([], None, ["other"]):
        provider.person["groups"] = groups
        answer = came_back(browser)
        assert (answer.status, b"None of your groups has a role here" in answer.body) == (403, True)
    assert not Person.objects.exists()
    assert browser.person is None


def test_a_star_gives_every_person_a_role(
    browser: Browser, provider: OpenIdProvider, described: ProviderSettings, settings: Any
) -> None:
    rules = replace(described, groups_roles="admins=root:full;*=guest:read")
    settings.SIGN_IN = replace(settings.SIGN_IN, providers=(rules,))
    provider.person["groups"] = None
    came_back(browser)
    assert browser.person["roles"] == [{"role": "guest", "level": "read"}]


def test_groups_may_be_in_the_user_info_and_in_objects(
    browser: Browser, provider: OpenIdProvider, described: ProviderSettings, settings: Any
) -> None:
    deep = replace(described, groups_claim="access.roles")
    settings.SIGN_IN = replace(settings.SIGN_IN, providers=(deep,))
    provider.user_info = {"access": {"roles": ["admins"]}}
    came_back(browser)
    assert browser.person["superuser"] is True
    provider.user_info["sub"] = "another"
    assert came_back(browser).status == 403


def test_a_name_that_another_person_has_is_not_taken_over(
    browser: Browser, add: AddPerson, provider: OpenIdProvider
) -> None:
    add("ann", "root:full")
    came_back(browser)
    assert browser.person["name"] == "ann@corp"
    provider.person = {**provider.person, "sub": "2"}
    other = Browser(browser.gateway)
    answer = came_back(other)
    assert (answer.status, b"has the name" in answer.body) == (403, True)
    assert Browser(browser.gateway).sign_in("ann").status == 200


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "Ann Ü/<b>"}, "Ann_Ü__b_"),
        ({"preferred_username": "", "email": "ann@example.org"}, "ann@example.org"),
        ({"preferred_username": None}, "1"),
    ],
)
def test_a_name_is_made_of_what_the_provider_says(
    claims: dict[str, Any], name: str, browser: Browser, provider: OpenIdProvider
) -> None:
    provider.person |= claims
    came_back(browser)
    assert browser.person["name"] == name


def test_a_person_who_is_not_active_is_refused(browser: Browser) -> None:
    came_back(browser)
    Person.objects.get().user.__class__.objects.update(is_active=False)
    other = Browser(browser.gateway)
    assert came_back(other).status == 403
    assert other.person is None


def change(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def changed(claims: dict[str, Any]) -> None:
        claims[name] = value
        if value is None:
            del claims[name]

    return changed


@pytest.mark.parametrize(
    "wrong",
    [
        change("iss", "https://other.example"),
        change("aud", "other"),
        change("aud", ["other"]),
        change("nonce", "other"),
        change("nonce", None),
        change("exp", 1_000_000_000),
        change("exp", None),
        change("sub", None),
        change("at_hash", "AAAA"),
        lambda claims: claims.update(aud=["other"], azp=CLIENT_ID),
    ],
)
def test_an_id_token_that_proves_nothing_is_refused(
    wrong: Callable[[dict[str, Any]], None], browser: Browser, provider: OpenIdProvider
) -> None:
    provider.change = wrong
    answer = came_back(browser)
    assert (answer.status, b"has not confirmed" in answer.body) == (403, True)
    assert browser.person is None
    assert not Person.objects.exists()


def test_an_id_token_by_another_key_is_refused(browser: Browser, provider: OpenIdProvider) -> None:
    provider.signing_key = ec.generate_private_key(ec.SECP256R1())
    assert came_back(browser).status == 403


def test_a_discovery_document_of_another_issuer_is_refused(
    browser: Browser, provider: OpenIdProvider
) -> None:
    real = provider.issuer
    provider.issuer = "https://other.example"
    assert begun(browser).status == 403
    provider.issuer = real
    assert begun(browser).status == 302


def test_a_way_back_that_this_browser_did_not_begin_is_refused(browser: Browser) -> None:
    """Otherwise a link could sign a browser in as the person who made it."""
    there = begun(browser).headers["location"]
    back = confirmed(there)
    victim = Browser(browser.gateway)
    assert victim("GET", back).status == 400
    begun(victim)
    assert victim("GET", back).status == 400
    assert victim.person is None
    assert browser("GET", back).status == 302


def test_a_way_back_serves_once(browser: Browser) -> None:
    answer = begun(browser)
    kept = dict(browser.cookies)
    back = confirmed(answer.headers["location"])
    assert browser("GET", back).status == 302
    again = Browser(browser.gateway)
    again.cookies = kept
    assert again("GET", back).status == 403


def test_pkce_and_state_are_new_for_each_sign_in(browser: Browser) -> None:
    queries = [parse_qs(urlsplit(begun(browser).headers["location"]).query) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        assert queries[0][name] != queries[1][name]
        assert len(queries[0][name][0]) >= 20


def test_a_refusal_by_the_provider_begins_no_session(
    browser: Browser, provider: OpenIdProvider
) -> None:
    provider.refuses = True
    assert came_back(browser).status == 403
    assert browser.person is None


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_a_provider_that_fails_is_named_and_passwords_still_serve(
    path: str, browser: Browser, add: AddPerson, provider: OpenIdProvider
) -> None:
    add("bob", "billing:full")
    provider.breaks = path
    answer = begun(browser)
    if answer.status == 302:
        answer = browser("GET", confirmed(answer.headers["location"]))
    assert (answer.status, b"Corporate does not answer" in answer.body) == (503, True), answer
    assert browser.sign_in("bob", PASSWORD).status == 200
    browser("POST", "session/sign-out")
    provider.breaks = ""
    assert came_back(browser).status == 302


@pytest.mark.parametrize(
    "step", ["/.well-known/openid-configuration", "/authorize", "/token", "/keys", "/me"]
)
def test_a_provider_that_ends_at_any_step_leaves_nothing_and_serves_when_it_is_back(
    step: str, browser: Browser, add: AddPerson, provider: OpenIdProvider
) -> None:
    add("bob", "billing:full")
    provider.user_info["groups"] = provider.person.pop("groups")
    provider.dies = step
    answer = begun(browser)
    if step == "/authorize":
        # The browser itself reports this; nothing comes back.
        with pytest.raises(OSError, match="closed connection"):
            build_opener(Stay).open(answer.headers["location"], timeout=10)
    else:
        if answer.status == 302:
            answer = browser("GET", confirmed(answer.headers["location"]))
            assert "sign-in" not in browser.cookies
        assert (answer.status, b"Corporate does not answer" in answer.body) == (503, True), answer
    assert Person.objects.count() == 1
    assert not PersonSession.objects.exists()
    assert browser.person is None
    assert Browser(browser.gateway).sign_in("bob").status == 200
    provider.dies = ""
    provider.start()
    assert came_back(browser).status == 302
    assert browser.person["name"] == "ann"


def test_a_sign_in_by_a_provider_is_whole_or_not_at_all_when_the_database_fails(
    browser: Browser,
) -> None:
    for query in range(QUERIES_MAX):
        back = confirmed(begun(browser).headers["location"])
        with away(query) as database:
            answer = browser("GET", back)
        if answer.status == 302:
            break
        assert database.failed
        assert (answer.status, b"database does not answer" in answer.body) == (503, True), answer
        assert not Person.objects.exists()
        assert not PersonSession.objects.exists()
        assert browser.person is None
    assert 4 < query < QUERIES_MAX - 1
    assert browser.person["name"] == "ann"


def test_a_provider_that_hangs_holds_up_a_bounded_time_and_no_other_call(
    browser: Browser, add: AddPerson, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.people import provider_client

    monkeypatch.setattr(provider_client, "READ_S", 0.2)
    add("bob", "billing:full")
    back = confirmed(begun(browser).headers["location"])
    provider.hangs = threading.Event()
    answer = browser("GET", back)
    assert (answer.status, b"does not answer" in answer.body) == (503, True)
    assert browser.sign_in("bob").status == 200


def test_sign_out_leads_to_the_end_of_the_session_at_the_provider(
    browser: Browser, provider: OpenIdProvider
) -> None:
    came_back(browser)
    href = browser("POST", "session/sign-out").json["end_session_href"]
    parts = urlsplit(href)
    query = parse_qs(parts.query)
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{provider.issuer}/end"
    assert query["client_id"] == [CLIENT_ID]
    assert query["post_logout_redirect_uri"] == ["http://127.0.0.1:8080/sign-in"]
    assert query["id_token_hint"][0].count(".") == 2
    assert browser.person is None


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/c/standalone/topics?q=1", "/c/standalone/topics?q=1"),
        *((bad, "/") for bad in ("", "//evil.example", "https://evil.example", "/\\evil.example")),
        *(
            (bad, "/")
            for bad in ("javascript:alert(1)", "evil", "/sign-in/corp", "/api/v1/session")
        ),
        *((bad, "/") for bad in ("/\t/evil.example", "///evil.example", "http:evil.example")),
    ],
)
def test_a_browser_is_sent_to_paths_of_the_console_alone(given: str, path: str) -> None:
    assert safe_path(given) == path


def test_an_unknown_provider_is_404(browser: Browser) -> None:
    for path in ("/sign-in/other", "/sign-in/other/callback", "/sign-in/corp/callback/x"):
        assert browser("GET", path).status in (404, 200)
    assert browser("GET", "/sign-in/other").status == 404
