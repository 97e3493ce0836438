"""The role that a session acts as, its password, and the list of a person's sessions."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.people import sessions
from gateway.people.models import PersonSession
from gateway.sign_in import ProviderSettings
from tests.support.access.browser import PASSWORD, Browser
from tests.unit.gateway.people.conftest import AddPerson

NEW = "another-horse-8"


def test_a_person_acts_as_one_of_its_roles(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full", "ops:operate")
    browser.sign_in("ann")
    before = dict(browser.cookies)
    answer = browser("POST", "session/acting-role", {"role": "ops"})
    assert (answer.json["person"]["role"], answer.json["person"]["level"]) == ("ops", "operate")
    assert browser.person == answer.json["person"]
    assert not set(before.values()) & set(browser.cookies.values())
    old = Browser(browser.gateway)
    old.cookies = before
    assert old.person is None
    refused = browser("POST", "session/acting-role", {"role": "root"})
    assert refused.status == 403
    assert browser.person["role"] == "ops"


def test_a_role_that_was_taken_away_acts_no_more(browser: Browser, add: AddPerson) -> None:
    person = add("ann", "billing:full", "ops:operate").person
    browser.sign_in("ann")
    browser("POST", "session/acting-role", {"role": "ops"})
    person.roles = person.roles[:1]
    person.save()
    assert browser.person["role"] == "billing"
    person.roles = [{"role": "billing", "level": "read"}]
    person.save()
    assert browser.person["level"] == "read"


def test_a_superuser_looks_as_a_role_and_only_reads(browser: Browser, root: Any) -> None:
    browser.sign_in("root")
    person = browser("POST", "session/view-as", {"role": "billing"}).json["person"]
    assert (person["role"], person["level"]) == ("billing", "read")
    assert (person["viewing_as"], person["superuser"]) == ("billing", True)
    assert person["reads_everything"] is False
    assert person["roles"] == [{"role": "root", "level": "full"}]
    person = browser("POST", "session/view-as", {"role": None}).json["person"]
    assert (person["role"], person["level"], person["viewing_as"]) == ("root", "full", None)


def test_a_superuser_of_a_lower_level_reads_everything(browser: Browser, add: AddPerson) -> None:
    add("ann", "root:read", "billing:full")
    person = browser.sign_in("ann").json["person"]
    assert (person["superuser"], person["reads_everything"]) == (False, True)
    person = browser("POST", "session/acting-role", {"role": "billing"}).json["person"]
    assert person["reads_everything"] is False


@pytest.mark.parametrize("roles", [("root:operate",), ("root:read",), ("billing:full",)])
def test_others_do_not_look_as_a_role(
    roles: tuple[str, ...], browser: Browser, add: AddPerson
) -> None:
    add("ann", *roles)
    browser.sign_in("ann")
    assert browser("POST", "session/view-as", {"role": "x"}).status == 403
    assert browser.person["viewing_as"] is None


def test_one_who_is_no_superuser_any_more_looks_as_no_role(browser: Browser, root: Any) -> None:
    browser.sign_in("root")
    browser("POST", "session/view-as", {"role": "billing"})
    root.person.roles = [{"role": "root", "level": "read"}]
    root.person.save()
    assert browser.person["role"] == "root"


def test_a_new_password_ends_the_other_sessions(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full")
    other = Browser(browser.gateway)
    other.sign_in("ann")
    browser.sign_in("ann")
    assert browser("POST", "session/password", {"current": PASSWORD, "new": NEW}).status == 204
    assert PersonSession.objects.count() == 1
    assert browser.person["name"] == "ann"
    assert other.person is None
    assert other.sign_in("ann").status == 401
    assert other.sign_in("ann", NEW).status == 200


@pytest.mark.parametrize(
    ("current", "new", "status", "words"),
    [
        ("wrong", NEW, 400, "is not your password"),
        (PASSWORD, PASSWORD, 422, "must differ"),
        (PASSWORD, "short", 422, "at least 10 characters"),
        (PASSWORD, "1234567890", 422, "entirely numeric"),
        (PASSWORD, "password123", 422, "too common"),
        (PASSWORD, "annabelle-1", 422, "too similar"),
    ],
)
def test_a_password_that_is_refused_changes_nothing(
    current: str, new: str, status: int, words: str, browser: Browser, add: AddPerson
) -> None:
    add("annabelle", "billing:full")
    browser.sign_in("annabelle")
    answer = browser("POST", "session/password", {"current": current, "new": new})
    assert (answer.status, words in answer.json["reason"]) == (status, True), answer.json
    assert browser.sign_in("annabelle").status == 200


def test_guesses_at_the_current_password_are_throttled(
    browser: Browser, add: AddPerson, settings: Any
) -> None:
    """Otherwise a stolen session would show the password itself."""
    settings.AXES_FAILURE_LIMIT = 2
    add("ann", "billing:full")
    browser.sign_in("ann")
    guess = {"current": "wrong", "new": NEW}
    assert browser("POST", "session/password", guess).status == 400
    assert browser("POST", "session/password", guess).status == 429
    right = {"current": PASSWORD, "new": NEW}
    assert browser("POST", "session/password", right).status == 429


def test_a_person_of_a_provider_has_no_password_to_change(
    browser: Browser, add: AddPerson, settings: Any
) -> None:
    corp = ProviderSettings(name="corp", title="Corp")
    settings.SIGN_IN = replace(settings.SIGN_IN, providers=(corp,))
    add("ann", "billing:full", provider="corp", subject="1")
    browser.sign_in("ann")
    assert browser.person["may_change_password"] is False
    body = {"current": PASSWORD, "new": NEW}
    assert browser("POST", "session/password", body).status == 403


def test_sessions_are_listed_and_end_one_by_one(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full")
    add("bob", "billing:full")
    browser.sign_in("ann")
    other = Browser(browser.gateway, "192.0.2.7")
    other.sign_in("ann")
    stranger = Browser(browser.gateway)
    stranger.sign_in("bob")
    rows = browser("GET", "session/sessions").json["rows"]
    assert [(row["address"], row["browser"], row["current"]) for row in rows] == [
        ("192.0.2.7", "Browser 1", False),
        ("127.0.0.1", "Browser 1", True),
    ]
    theirs = f"session/sessions/{rows[0]['id']}"
    assert stranger("DELETE", theirs).status == 404
    assert other.person["name"] == "ann"
    assert browser("DELETE", theirs).status == 204
    assert other.person is None
    assert browser.person["name"] == "ann"
    assert browser("DELETE", theirs).status == 404
    assert browser.cookies["sessionid"] not in str(rows)


def test_the_id_of_a_session_stays_when_its_key_is_replaced(
    browser: Browser, add: AddPerson
) -> None:
    add("ann", "billing:full", "ops:read")
    browser.sign_in("ann")
    before = browser("GET", "session/sessions").json["rows"]
    browser("POST", "session/acting-role", {"role": "ops"})
    [row] = browser("GET", "session/sessions").json["rows"]
    assert row["id"] == before[0]["id"]
    assert row["created_at"] == before[0]["created_at"]


def test_the_use_of_a_session_is_stored_once_a_minute(
    browser: Browser, add: AddPerson, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1_000_000]
    monkeypatch.setattr(sessions, "now_ms", lambda: times[-1])
    add("ann", "billing:full")
    browser.sign_in("ann")
    seen = []
    for time in (1_030_000, 1_060_000, 1_090_000, 1_125_000):
        times.append(time)
        assert browser.person
        seen.append(PersonSession.objects.get().seen_at_ms)
    assert seen == [1_000_000, 1_060_000, 1_060_000, 1_125_000]


def test_a_session_ends_at_its_time_whatever_it_does(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full", "ops:read")
    browser.sign_in("ann")
    ends_at = browser.person["ends_at"]
    for role in ("ops", "billing"):
        browser("POST", "session/acting-role", {"role": role})
    assert browser.person["ends_at"] == ends_at
    row = PersonSession.objects.get()
    row.expire_date = row.expire_date.replace(year=2020)
    row.save()
    assert browser.person is None
    browser.sign_in("ann")
    assert PersonSession.objects.count() == 1
