"""A database that fails at any query of a sign-in: the answer says so, and nothing is half made."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model

from gateway.people import set_up
from gateway.people.models import Person, PersonSession
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.failing_database import away
from tests.support.admin.gateway_client import Answer
from tests.unit.gateway.people.conftest import AddPerson

QUERIES_MAX = 60
AWAY = "The console's database does not answer; try again"


def refused(answer: Answer) -> None:
    assert answer.status == 503, answer
    assert answer.json["reason"] == AWAY
    assert answer.json["hop"] == "database"
    assert not [text for text in answer.cookies if "sessionid" in text]


def test_a_sign_in_is_whole_or_not_at_all(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full", must_change_password=True)
    browser("GET", "session")
    body = {"name": "ann", "password": PASSWORD, "new_password": "another-horse-8"}
    for query in range(QUERIES_MAX):
        with away(query) as database:
            answer = browser("POST", "session/sign-in", body)
        if answer.status == 200:
            break
        assert database.failed
        refused(answer)
        assert not PersonSession.objects.exists()
        assert Person.objects.get().must_change_password
    assert answer.status == 200
    assert 8 < query < QUERIES_MAX - 1
    assert PersonSession.objects.count() == 1


def test_a_session_that_cannot_be_read_is_no_stranger(browser: Browser, add: AddPerson) -> None:
    """Answer 503, and not that the person must sign in again."""
    add("ann", "billing:full", "ops:read")
    browser.sign_in("ann")
    cookies = dict(browser.cookies)
    for query in range(2):
        for method, path, body in (
            ("GET", "session", None),
            ("GET", "session/sessions", None),
            ("POST", "session/acting-role", {"role": "ops"}),
        ):
            with away(query):
                refused(browser(method, path, body))
            assert browser.cookies == cookies
    assert browser.person["role"] == "billing"


def test_a_role_changes_whole_or_not_at_all(browser: Browser, add: AddPerson) -> None:
    add("ann", "billing:full", "ops:read")
    browser.sign_in("ann")
    role, other = "billing", "ops"
    for query in range(QUERIES_MAX):
        with away(query) as database:
            answer = browser("POST", "session/acting-role", {"role": other})
        if answer.status == 200:
            role, other = other, role
        assert browser.person["role"] == role
        assert PersonSession.objects.count() == 1
        if not database.failed:
            break
    assert query < QUERIES_MAX - 1


def test_the_first_person_is_made_whole_or_not_at_all(
    browser: Browser, settings: Any, tmp_path: Path
) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, data_dir=tmp_path)
    code = set_up.announce(tmp_path)
    browser("GET", "session")
    body = {"code": code, "name": "ann", "password": PASSWORD}
    for query in range(QUERIES_MAX):
        with away(query) as database:
            answer = browser("POST", "session/set-up", body)
        if answer.status == 200:
            break
        assert database.failed
        refused(answer)
        assert not get_user_model().objects.exists()
        assert (tmp_path / set_up.FILE_NAME).exists()
    assert answer.status == 200
    assert browser.person["superuser"] is True
