"""The first person, who is created with a code that the gateways write, and by nothing else."""

import logging
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from gateway.people import set_up
from gateway.people.models import SetUp
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.callers import by_token


@pytest.fixture
def printed(door: Any, settings: Any, tmp_path: Path) -> str:
    """The code that the start wrote."""
    from dataclasses import replace

    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, data_dir=tmp_path)
    return set_up.announce(tmp_path)


def given(code: str, name: str = "ann", password: str = PASSWORD) -> dict[str, str]:
    return {"code": code, "name": name, "password": password}


def test_the_code_makes_the_first_person_a_superuser_once(
    browser: Browser, printed: str, tmp_path: Path
) -> None:
    assert browser("GET", "session").json["set_up_needed"] is True
    answer = browser("POST", "session/set-up", given(f" {printed.lower()} "))
    person = answer.json["person"]
    assert (person["name"], person["role"], person["superuser"]) == ("ann", "root", True)
    assert browser.person == person
    assert not (tmp_path / set_up.FILE_NAME).exists()
    other = Browser(browser.gateway)
    assert other("GET", "session").json["set_up_needed"] is False
    assert other("POST", "session/set-up", given(printed, "bob")).status == 409
    assert [user.username for user in get_user_model().objects.all()] == ["ann"]
    assert other.sign_in("ann").status == 200


def test_the_start_writes_the_code_to_a_file_for_the_owner_and_not_to_the_log(
    printed: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert set_up.announce(tmp_path) == printed
    file = tmp_path / set_up.FILE_NAME
    assert str(file) in caplog.text
    assert printed not in caplog.text
    assert (file.read_text(), file.stat().st_mode & 0o777) == (f"{printed}\n", 0o600)
    assert len(printed.replace("-", "")) == 16
    get_user_model().objects.create_superuser("admin")
    assert set_up.announce(tmp_path) == ""
    assert not file.exists()


def test_gateways_of_one_database_and_key_print_one_code(
    printed: str, settings: Any, tmp_path: Path
) -> None:
    assert set_up.announce(tmp_path) == printed
    settings.SECRET_KEY = "another key"
    assert set_up.announce(tmp_path) != printed
    settings.SECRET_KEY = "third key"
    SetUp.objects.all().delete()
    other = set_up.announce(tmp_path)
    SetUp.objects.all().delete()
    assert set_up.announce(tmp_path) != other


@pytest.mark.parametrize("code", ["", "x", "AAAA-AAAA-AAAA-AAAA", "äöü"])
def test_a_wrong_code_makes_no_person(code: str, browser: Browser, printed: str) -> None:
    browser("GET", "session")
    answer = browser("POST", "session/set-up", given(code))
    assert answer.status == (403 if code else 400)
    assert not get_user_model().objects.exists()


def test_guesses_are_throttled_for_all_gateways(
    browser: Browser, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser("GET", "session")
    for _ in range(set_up.FAILURES_MAX):
        assert browser("POST", "session/set-up", given("wrong")).status == 403
    answer = browser("POST", "session/set-up", given(printed))
    assert (answer.status, 0 < answer.json["retry_after_s"] <= 601) == (429, True)
    now = set_up.now_ms()
    monkeypatch.setattr(set_up, "now_ms", lambda: now + set_up.WINDOW_MS)
    assert browser("POST", "session/set-up", given(printed)).status == 200


def test_a_person_that_cannot_be_made_leaves_the_set_up_open(
    browser: Browser, printed: str
) -> None:
    browser("GET", "session")
    assert browser("POST", "session/set-up", given(printed, password="short")).status == 422
    assert browser("POST", "session/set-up", given(printed, "a b")).status == 400
    assert not get_user_model().objects.exists()
    assert browser("POST", "session/set-up", given(printed)).status == 200


def test_the_set_up_needs_the_csrf_token(browser: Browser, printed: str) -> None:
    browser("GET", "session")
    assert browser("POST", "session/set-up", given(printed), csrf=False).status == 403


def test_no_set_up_where_authentication_is_off(
    browser: Browser, settings: Any, tmp_path: Path
) -> None:
    settings.IDENTITY = by_token(authentication_enabled=False)
    assert set_up.announce(tmp_path) == ""
    assert browser("GET", "session").json["set_up_needed"] is False
    assert browser("POST", "session/set-up", given("x")).status == 409


def test_of_two_set_ups_at_once_the_first_makes_the_person(
    browser: Browser, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let the second one pass its first checks before the first one has finished."""
    browser("GET", "session")
    is_right = set_up._is_right

    def overtaken(code: str) -> bool:
        right = is_right(code)
        monkeypatch.setattr(set_up, "_is_right", is_right)
        SetUp.objects.all().delete()
        return right

    monkeypatch.setattr(set_up, "_is_right", overtaken)
    assert browser("POST", "session/set-up", given(printed)).status == 409
    assert not get_user_model().objects.exists()
