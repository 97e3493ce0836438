"""Sign-in by a password, what the session then is, and its end."""

import time
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from admin_ui.models import AuditEntry
from gateway.people.models import PersonSession
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.callers import bearer
from tests.support.admin.gateway_client import Gateway
from tests.unit.gateway.people.conftest import AddPerson

REFUSED = {"reason": "Name or password is wrong"}


def test_a_caller_without_a_session_reads_how_to_sign_in(browser: Browser, root: Any) -> None:
    answer = browser("GET", "session")
    assert answer.json == {
        "authentication": True,
        "authorization": False,
        "set_up_needed": False,
        "password_sign_in": True,
        "providers": [],
        "person": None,
    }
    assert browser.cookies.keys() == {"csrftoken"}


def test_a_person_signs_in_and_out(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full", "ops:operate", display_name="Ann")
    answer = browser.sign_in("ann")
    assert answer.status == 200
    person = answer.json["person"]
    assert person == browser.person
    assert 0 < person.pop("ends_at") / 1000 - time.time() - 11.9 * 3600 < 3600
    assert person == {
        "name": "ann",
        "display_name": "Ann",
        "method": "session",
        "role": "billing",
        "level": "full",
        "roles": [{"role": "billing", "level": "full"}, {"role": "ops", "level": "operate"}],
        "viewing_as": None,
        "superuser": False,
        "reads_everything": False,
        "may_change_password": True,
    }
    assert browser("POST", "session/sign-out").json == {"end_session_href": None}
    assert browser.person is None
    assert browser.cookies.keys() == {"csrftoken"}
    assert not PersonSession.objects.exists()


def test_the_cookie_of_a_session_is_for_this_site_and_no_script(
    browser: Browser, root: Any
) -> None:
    [session] = [text for text in browser.sign_in("root").cookies if "sessionid" in text]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} < set(session.split("; "))


def test_a_session_that_is_read_keeps_the_cookies(browser: Browser, root: Any) -> None:
    """Keep the token: other pages of the browser have it."""
    browser("GET", "session")
    for _ in range(2):
        before = dict(browser.cookies)
        answer = browser("GET", "session")
        assert browser.cookies == before
        assert not [text for text in answer.cookies if "sessionid" in text]
        browser.sign_in("root")


def test_a_sign_in_is_in_the_audit_log_and_a_refused_one_is_not(
    browser: Browser, root: Any
) -> None:
    browser.sign_in("root", "wrong")
    assert not AuditEntry.objects.exists()
    browser.sign_in("root")
    [entry] = AuditEntry.objects.all()
    assert (entry.actor, entry.method, entry.target, entry.status, entry.given) == (
        "root",
        "POST",
        "/api/v1/session/sign-in",
        200,
        "",
    )


def test_a_superuser_of_django_signs_in_as_a_superuser(browser: Browser) -> None:
    get_user_model().objects.create_superuser("admin", password=PASSWORD)
    person = browser.sign_in("admin").json["person"]
    assert (person["role"], person["level"], person["superuser"]) == ("root", "full", True)


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong"), ("nemo", PASSWORD), ("gone", PASSWORD)]
)
def test_a_refusal_is_the_same_for_every_cause(
    name: str, password: str, browser: Browser, add: AddPerson
) -> None:
    add("ann", "billing:full")
    gone = add("gone", "billing:full")
    gone.is_active = False
    gone.save()
    answer = browser.sign_in(name, password)
    assert (answer.status, answer.json) == (401, REFUSED)
    assert "sessionid" not in browser.cookies


@pytest.mark.parametrize("name", ["ann", "nemo", "gone", "sso"])
def test_each_refusal_costs_one_hash(
    name: str, browser: Browser, add: AddPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse at the same cost: the time of a cheaper refusal would show that a person does not exist, is not active, or
    has no password."""
    from django.contrib.auth.hashers import MD5PasswordHasher

    add("ann", "billing:full")
    for other in ("gone", "sso"):
        user = add(other, "billing:full")
        user.is_active = other != "gone"
        if other == "sso":
            user.set_unusable_password()
        user.save()
    hashes = 0
    encode = MD5PasswordHasher.encode

    def counted(*args: Any) -> str:
        nonlocal hashes
        hashes += 1
        return encode(*args)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    assert browser.sign_in(name, "wrong-password").json == REFUSED
    assert hashes == 1


def test_a_sign_in_needs_the_csrf_token(browser: Browser, root: Any) -> None:
    browser("GET", "session")
    body = {"name": "root", "password": PASSWORD}
    answer = browser("POST", "session/sign-in", body, csrf=False)
    assert answer.status == 403
    assert "CSRF" in answer.json["reason"]


def test_a_sign_in_gives_a_new_key_and_ends_the_session_that_was_shown(
    browser: Browser, root: Any
) -> None:
    browser.sign_in("root")
    before = dict(browser.cookies)
    browser.sign_in("root")
    assert browser.cookies["sessionid"] != before["sessionid"]
    assert browser.cookies["csrftoken"] != before["csrftoken"]
    assert [row.pk for row in PersonSession.objects.all()] == [browser.cookies["sessionid"]]
    planted = Browser(browser.gateway)
    planted.cookies["sessionid"] = "a" * 32
    planted.sign_in("root")
    assert planted.cookies["sessionid"] != "a" * 32


def test_too_many_failures_are_refused_for_a_time_whatever_the_password(
    browser: Browser, root: Any, settings: Any
) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    for name in ("root", "nemo"):
        for _ in range(2):
            assert browser.sign_in(name, "wrong").status == 401
        # The failure that reaches the limit is refused as those after it, and so is the right password.
        for password in ("wrong", PASSWORD):
            answer = browser.sign_in(name, password)
            assert answer.status == 429
            assert 0 < answer.json["retry_after_s"] <= 15 * 60 + 1
            assert answer.headers["retry-after"] == str(answer.json["retry_after_s"])
    elsewhere = Browser(browser.gateway, "192.0.2.7")
    assert elsewhere.sign_in("root").status == 200
    assert browser.sign_in("root").status == 429


def test_a_success_forgets_earlier_failures(browser: Browser, root: Any, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 2
    for _ in range(3):
        assert browser.sign_in("root", "wrong").status == 401
        assert browser.sign_in("root").status == 200


def test_sign_in_is_refused_where_authentication_is_off(
    call: Gateway, settings: Any, transactional_db: None
) -> None:
    browser = Browser(call)
    assert browser("GET", "session").json["authentication"] is False
    answer = browser.sign_in("root")
    assert answer.status == 409
    assert "authentication_enabled" in answer.json["reason"]


def test_a_caller_by_token_is_known_by_its_role(door: Gateway) -> None:
    answer = door("GET", "/api/v1/session", headers=bearer("root"))
    person = answer.json["person"]
    assert (person["name"], person["method"], person["superuser"]) == ("root", "token", True)
    assert person["roles"] == [{"role": "root", "level": "full"}]
    bad = {"authorization": "Bearer bad"}
    assert door("GET", "/api/v1/session", headers=bad).status == 401


def test_calls_of_a_session_are_refused_to_a_token(door: Gateway) -> None:
    for path in ("sign-out", "acting-role", "view-as", "password"):
        body = {"role": "root", "current": "a", "new": "b"}
        answer = door("POST", f"/api/v1/session/{path}", body, headers=bearer("root"))
        assert (answer.status, "sign in first" in answer.json["reason"]) == (403, True)
